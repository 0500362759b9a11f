#include "quern/watch/terminal.hpp"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "quern/base/suggest.hpp"

namespace quern {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::string_view(value) : std::string_view();
}

// A locale object of our own: the program's global locale, and with it every number it prints, stays "C".
bool utf8_locale() {
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", locale_t{});
  if (locale == locale_t{}) return false;
  const bool utf8 = std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  freelocale(locale);
  return utf8;
}

bool wants_colour(const Terminal& terminal, ColourPolicy policy) {
  if (policy != ColourPolicy::automatic) return policy == ColourPolicy::always;
  if (!environment("NO_COLOR").empty()) return false;
  const std::string_view force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return terminal.live;
}

struct Range {
  std::int32_t first, last;
};

template <std::size_t N>
bool within(std::int32_t character, const std::array<Range, N>& ranges) {
  for (const Range& range : ranges) {
    if (character >= range.first && character <= range.last) return true;
  }
  return false;
}

bool obeyed_by_terminals(std::int32_t character) {
  static constexpr std::array<Range, 7> ranges = {{{0x00, 0x1F},
                                                   {0x7F, 0x9F},
                                                   {0x061C, 0x061C},
                                                   {0x200E, 0x200F},
                                                   {0x2028, 0x202E},
                                                   {0x2066, 0x2069},
                                                   {0xFEFF, 0xFEFF}}};
  return within(character, ranges);
}

int columns_of(std::int32_t character) {
  static constexpr std::array<Range, 6> none = {{{0x0300, 0x036F},
                                                 {0x0483, 0x0489},
                                                 {0x0591, 0x05BD},
                                                 {0x064B, 0x065F},
                                                 {0x200B, 0x200D},
                                                 {0xFE00, 0xFE0F}}};
  static constexpr std::array<Range, 8> wide = {{{0x1100, 0x115F},
                                                 {0x2E80, 0xA4CF},
                                                 {0xAC00, 0xD7A3},
                                                 {0xF900, 0xFAFF},
                                                 {0xFE30, 0xFE6F},
                                                 {0xFF00, 0xFF60},
                                                 {0x1F300, 0x1FAFF},
                                                 {0x20000, 0x3FFFD}}};
  return within(character, none) ? 0 : within(character, wide) ? 2 : 1;
}

/// Takes one character off the front of `text`, which is not empty; -1, with one byte taken, where there is
/// none.
std::int32_t take_character(std::string_view& text) {
  const std::size_t length = utf8_length(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::int32_t character = length == 0 ? -1 : length == 1 ? byte(0) : byte(0) & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) character = (character << 6) | (byte(i) & 0x3F);
  text.remove_prefix(length == 0 ? 1 : length);
  return character;
}

}  // namespace

std::optional<ColourPolicy> colour_policy(std::string_view name) {
  if (name == "auto") return ColourPolicy::automatic;
  if (name == "always") return ColourPolicy::always;
  if (name == "never") return ColourPolicy::never;
  return std::nullopt;
}

int terminal_width(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string_view columns = environment("COLUMNS");
  int width = 0;
  const auto result = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  const bool number = result.ec == std::errc() && result.ptr == columns.data() + columns.size();
  return number && width > 0 ? width : 80;
}

int terminal_height(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

Terminal inspect_terminal(int fd, ColourPolicy policy) {
  Terminal terminal;
  terminal.fd = fd;
  terminal.tty = isatty(fd) == 1;
  terminal.live = terminal.tty && environment("TERM") != "dumb";
  terminal.utf8 = utf8_locale();
  terminal.colour = wants_colour(terminal, policy);
  terminal.width = terminal_width(fd);
  return terminal;
}

std::string harmless(std::string_view text, bool ascii) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const std::int32_t character = take_character(text);
    const bool keep = character == '\n' || character == '\t' ||
                      (character >= 0 && !obeyed_by_terminals(character) && (!ascii || character < 0x80));
    if (keep) {
      out += before.substr(0, before.size() - text.size());
    } else {
      out += ascii ? "?" : "\uFFFD";
    }
  }
  return out;
}

int display_width(std::string_view text) {
  int columns = 0;
  while (!text.empty()) columns += columns_of(take_character(text));
  return columns;
}

std::string fit(std::string_view text, int columns, bool ascii) {
  if (display_width(text) <= columns) return std::string(text);
  std::string_view rest = text;
  int used = 0;
  std::size_t end = 0;
  while (!rest.empty()) {
    used += columns_of(take_character(rest));
    if (used > columns - 1) break;
    end = text.size() - rest.size();
  }
  return columns < 1 ? std::string() : std::string(text.substr(0, end)) + (ascii ? "~" : "…");
}

std::string fit_middle(std::string_view text, int columns, bool ascii) {
  int rest = display_width(text);
  if (rest <= columns) return std::string(text);
  if (columns < 1) return {};
  const int half = columns / 2;
  std::string out = fit(text, half + 1, ascii);  // ends in the mark
  while (!text.empty()) {
    std::string_view behind = text;
    const int first = columns_of(take_character(behind));
    if (rest <= columns - half - 1 && first > 0) break;  // what stays does not begin with a combining mark
    rest -= first;
    text = behind;
  }
  return out.append(text);
}

}  // namespace quern
