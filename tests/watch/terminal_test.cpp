#include "quern/watch/terminal.hpp"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "catch.hpp"

using namespace quern;

namespace {

/// Sets environment variables and puts the old values back; an empty optional unsets.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::optional<std::string>>> values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name);
      old_[name] = old ? std::optional<std::string>(old) : std::nullopt;
      set(name, value);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : old_) set(name, value);
  }

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> old_;
};

/// A bare chroot has no pseudo-terminals to try these on.
bool have_ptys() {
  int master = -1, slave = -1;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return false;
  close(master);
  close(slave);
  return true;
}

struct Pty {
  explicit Pty(unsigned short columns) {
    winsize size{24, columns, 0, 0};
    REQUIRE(openpty(&master, &slave, nullptr, nullptr, &size) == 0);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;
  ~Pty() {
    close(master);
    close(slave);
  }
  int master = -1, slave = -1;
};

struct Null {
  Null() : fd(open("/dev/null", O_WRONLY)) {}
  Null(const Null&) = delete;
  Null& operator=(const Null&) = delete;
  ~Null() { close(fd); }
  int fd;
};

}  // namespace

TEST_CASE("colour follows the policy, then NO_COLOR, CLICOLOR_FORCE, TERM and the descriptor") {
  if (!have_ptys()) {
    WARN("no pseudo-terminals here: not tried");
    return;
  }
  const Pty pty(100);
  const Null null;
  struct Case {
    std::optional<std::string> no_color, force, term;
    bool on_tty, on_file;
  };
  const Case cases[] = {
      {{}, {}, "xterm", true, false},    {"1", {}, "xterm", false, false}, {"", {}, "xterm", true, false},
      {{}, "1", "xterm", true, true},    {{}, "0", "xterm", true, false},  {{}, "", "xterm", true, false},
      {"1", "1", "xterm", false, false}, {{}, {}, "dumb", false, false},   {{}, "1", "dumb", true, true},
  };
  for (const Case& c : cases) {
    const Environment environment{{"NO_COLOR", c.no_color}, {"CLICOLOR_FORCE", c.force}, {"TERM", c.term}};
    CAPTURE(c.no_color.value_or("-"), c.force.value_or("-"), c.term.value_or("-"));
    CHECK(inspect_terminal(pty.slave).colour == c.on_tty);
    CHECK(inspect_terminal(null.fd).colour == c.on_file);
    CHECK(inspect_terminal(null.fd, ColourPolicy::always).colour);
    CHECK_FALSE(inspect_terminal(pty.slave, ColourPolicy::never).colour);
    CHECK(inspect_terminal(pty.slave).tty);
    CHECK(inspect_terminal(pty.slave).live == (c.term != "dumb"));
    CHECK_FALSE(inspect_terminal(null.fd).live);
  }
}

TEST_CASE("the width is the terminal's, of other files COLUMNS, else 80") {
  if (!have_ptys()) {
    WARN("no pseudo-terminals here: not tried");
    return;
  }
  const Pty pty(123), unknown(0);
  const Null null;
  const Environment environment{{"COLUMNS", "66"}};
  CHECK(terminal_width(pty.slave) == 123);
  CHECK(terminal_width(unknown.slave) == 66);
  CHECK(terminal_width(null.fd) == 66);
  for (const char* nonsense : {"", "-5", "0", "12x", "99999999999"}) {
    const Environment inner{{"COLUMNS", nonsense}};
    CHECK(terminal_width(null.fd) == 80);
  }
}

TEST_CASE("the character set is the locale's and the global locale stays as it was") {
  const Null null;
  {
    const Environment environment{{"LC_ALL", "C.UTF-8"}};
    CHECK(inspect_terminal(null.fd).utf8);
  }
  {
    const Environment environment{{"LC_ALL", "C"}};
    CHECK_FALSE(inspect_terminal(null.fd).utf8);
  }
  {
    const Environment environment{{"LC_ALL", "no_SUCH.locale"}};
    CHECK_FALSE(inspect_terminal(null.fd).utf8);
  }
}

TEST_CASE("harmless keeps text and replaces what a terminal obeys") {
  CHECK(harmless("plain\ttext\n") == "plain\ttext\n");
  CHECK(harmless("Grüße 日本 😀") == "Grüße 日本 😀");
  CHECK(harmless("\x1b[31mred") == "\uFFFD[31mred");
  CHECK(harmless("a\rb\ac\x7f") == "a\uFFFDb\uFFFDc\uFFFD");
  CHECK(harmless("\u009b31m") == "\uFFFD31m");                                        // C1 CSI as a character
  CHECK(harmless("\x9b") == "\uFFFD");                                                // and as a byte
  CHECK(harmless("a\u202Eb\u2066c\u200Fd\u061C") == "a\uFFFDb\uFFFDc\uFFFDd\uFFFD");  // bidirectional
  CHECK(harmless("\xC3") == "\uFFFD");                                                // cut short
  CHECK(harmless("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");                            // a surrogate
  CHECK(harmless(std::string_view("a\0b", 3)) == "a\uFFFDb");
  CHECK(harmless("Grüße\x1b\n", true) == "Gr??e?\n");
}

TEST_CASE("display width and fitting") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("Grüße") == 5);
  CHECK(display_width("日本") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("⠤●╌") == 3);
  CHECK(fit("abcdef", 6) == "abcdef");
  CHECK(fit("abcdef", 5) == "abcd…");
  CHECK(fit("abcdef", 5, true) == "abcd~");
  CHECK(fit("日本語", 5) == "日本…");
  CHECK(fit("日本語", 4) == "日…");
  CHECK(fit("abc", 1) == "…");
  CHECK(fit("abc", 0).empty());
  CHECK(fit_middle("abcdef", 6) == "abcdef");
  CHECK(fit_middle("abcdefgh", 6) == "abc…gh");
  CHECK(fit_middle("abcdefgh", 5) == "ab…gh");
  CHECK(fit_middle("abcdefgh", 5, true) == "ab~gh");
  CHECK(fit_middle("日本語日本語", 8) == "日本…語");  // 4 + 1 + 2: a half character is left out
  CHECK(fit_middle("abcde\u0301fgh", 6) == "abc…gh");
  CHECK(fit_middle("abcdef\u0301gh", 5) == "ab…gh");
  CHECK(fit_middle("abcdefg\u0301h", 4) == "ab…h");  // no mark without its letter
  CHECK(fit_middle("abc", 1) == "…");
  CHECK(fit_middle("abc", 0).empty());
}

TEST_CASE("colour policies by name") {
  CHECK(colour_policy("auto") == ColourPolicy::automatic);
  CHECK(colour_policy("always") == ColourPolicy::always);
  CHECK(colour_policy("never") == ColourPolicy::never);
  CHECK_FALSE(colour_policy("yes"));
}
