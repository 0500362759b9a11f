// quern report and the page that training keeps, from outside.
#include <pty.h>
#include <sys/ioctl.h>

#include <csignal>
#include <sstream>

#include "cli/runs.hpp"

using namespace quern::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> training(const fs::path& run, const std::vector<std::string>& settings = {}) {
  return with_settings(
      {"train", "--config", configs + "tiny.json", "--run-dir", run.string(), "--set", "run.max_steps=4"},
      settings);
}

json data_of(const fs::path& page) {
  const std::string text = get(page), begin = "id=\"data\">";
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  return json::parse(text.substr(at + begin.size(), text.find("</script>", at) - at - begin.size()));
}

bool has_leftovers(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(".tmp-")) return true;
  return false;
}

}  // namespace

TEST_CASE("training leaves a page of itself and says where") {
  const TemporaryDirectory place;
  const fs::path one = place / "one", two = place / "two";
  const Outcome loud = run(training(one), place);
  REQUIRE(loud.code == 0);
  CHECK(has(loud.err, "report:  " + (one / "report.html").string() + "\n"));
  const json data = data_of(one / "report.html")["runs"][0];
  CHECK(data["status"] == "completed");
  CHECK(data["steps"]["step"] == json({1, 2, 3, 4}));
  CHECK(data["config"]["run.max_steps"] == 4);
  CHECK(!has_leftovers(one));

  std::vector<std::string> quiet = training(two);
  quiet.push_back("--quiet");
  const Outcome silent = run(quiet, place);
  CHECK(silent.err.empty());
  CHECK(fs::exists(two / "report.html"));
}

TEST_CASE("the page's command trains the same model again") {
  const TemporaryDirectory place;
  const fs::path one = place / "one", again = place / "again";
  REQUIRE(run(training(one, {"run.seed=7", "optim.learning_rate=0.002"}), place).code == 0);
  std::istringstream command(data_of(one / "report.html")["runs"][0]["command"].get<std::string>());
  std::vector<std::string> words;
  for (std::string word; command >> word;) words.push_back(word);
  REQUIRE(words.front() == "quern");
  words.erase(words.begin());
  words.insert(words.end(), {"--run-dir", again.string()});
  REQUIRE(run(words, place).code == 0);
  check_same_run(again, one);
}

TEST_CASE("quern report writes one run's page into its directory, that of several beside the user") {
  const TemporaryDirectory place;
  const fs::path one = place / "one", two = place / "two";
  REQUIRE(run(training(one), place).code == 0);
  REQUIRE(run(training(two, {"run.seed=8"}), place).code == 0);
  fs::remove(one / "report.html");
  const Outcome alone = run({"report", one.string()}, place);
  CHECK(alone.code == 0);
  CHECK(alone.out.empty());
  CHECK(alone.err == "report:  " + (one / "report.html").string() + "\n");
  CHECK(data_of(one / "report.html")["runs"].size() == 1);

  const Outcome both = run({"report", "one", "two/metrics.jsonl"}, place, {.folder = place.path().string()});
  CHECK(both.code == 0);
  CHECK(both.err == "report:  report.html\n");
  const json runs = data_of(place / "report.html")["runs"];
  REQUIRE(runs.size() == 2);
  CHECK(runs[0]["name"] == "one");
  CHECK(runs[1]["name"] == "two");
  CHECK(runs[1]["config"]["run.seed"] == 8);
  CHECK(!has_leftovers(place.path()));

  REQUIRE(run({"report", one.string(), "--out", (place / "x.html").string()}, place).code == 0);
  CHECK(get(place / "x.html").size() > 200'000);
}

TEST_CASE("what cannot be reported is refused") {
  const TemporaryDirectory place;
  const fs::path one = place / "one";
  REQUIRE(run(training(one), place).code == 0);
  CHECK(run({"report"}, place).code == 2);
  CHECK(run({"report", (place / "none").string()}, place).code == 7);
  CHECK(run({"report", place.path().string()}, place).code == 7);
  const Outcome nowhere = run({"report", one.string(), "--out", (place / "no/x.html").string()}, place);
  CHECK(nowhere.code == 4);
  CHECK(has(nowhere.err, "no/"));
  fs::create_directory(place / "folder");
  CHECK(run({"report", one.string(), "--out", (place / "folder").string()}, place).code == 4);
  CHECK(!has_leftovers(place.path()));

  put(one / "env.json", "{");
  const Outcome damaged = run({"report", one.string()}, place);
  CHECK(damaged.code == 0);
  CHECK(has(damaged.err, "warning: this is no JSON object (" + (one / "env.json").string() + ")"));
  put(one / "metrics.jsonl", "{\n{}\n");
  CHECK(run({"report", one.string()}, place).code == 3);
}

TEST_CASE("a page tells whether its run goes on, was stopped or killed") {
  const TemporaryDirectory place;
  const fs::path one = place / "one";
  const auto status = [&] {
    REQUIRE(run({"report", one.string(), "--out", (place / "x.html").string()}, place).code == 0);
    return data_of(place / "x.html")["runs"][0]["status"];
  };
  const std::vector<std::string> endless = training(one, {"run.max_steps=1000000", "run.eval_interval=0"});
  Program program(endless, place);
  REQUIRE(wait_for_metrics(program, one, "\"step\""));
  const TemporaryDirectory other;  // the program that runs holds the files of the first
  REQUIRE(run({"report", one.string(), "--out", (place / "x.html").string()}, other).code == 0);
  CHECK(data_of(place / "x.html")["runs"][0]["status"] == "running");
  ::kill(program.pid(), SIGKILL);
  program.wait();
  CHECK(status() == "killed");

  std::vector<std::string> again = endless;
  again.insert(again.end(), {"--resume", "auto"});
  Program resumed(again, place);
  // The metrics hold the first process' steps until this one has begun.
  REQUIRE(wait_until(resumed, [&] { return catches(resumed, SIGTERM); }));
  ::kill(resumed.pid(), SIGTERM);
  CHECK(resumed.wait().code == 128 + SIGTERM);
  CHECK(data_of(one / "report.html")["runs"][0]["status"] == "interrupted");
  CHECK(status() == "interrupted");
}

TEST_CASE("quern curves --csv prints every step and evaluation") {
  const TemporaryDirectory place;
  const fs::path one = place / "one";
  REQUIRE(run(training(one), place).code == 0);
  const Outcome csv = run({"curves", "--csv", one.string(), (one / "metrics.jsonl").string()}, place);
  CHECK(csv.code == 0);
  CHECK(csv.err.empty());
  CHECK(csv.out.starts_with("run,event,step,tokens,seconds,loss,"));
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 1 + 2 * (4 + 2));
  CHECK(run({"curves", "--csv", "--metric", "lr", one.string()}, place).code == 2);
}

TEST_CASE("quern curves --follow draws over what it drew until the run has ended") {
  const TemporaryDirectory place, other;
  const fs::path one = place / "one";
  CHECK(run({"curves", "--follow", "--csv", one.string()}, other).code == 2);
  const Outcome piped = run({"curves", "--follow", one.string()}, other);
  CHECK(piped.code == 2);
  CHECK(has(piped.err, "run it in a terminal"));

  int master = -1, slave = -1;
  winsize size{24, 60, 0, 0};
  if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) {
    WARN("no terminal can be had here (/dev/pts is missing): --follow is not tried");
    return;
  }
  Program trainer(training(one, {"run.max_steps=1000000", "run.eval_interval=0"}), place);
  REQUIRE(wait_for_metrics(trainer, one, "\"step\":1,"));
  Program follower({"curves", "--follow", one.string()}, other,
                   {.environment = {"TERM=xterm", "LC_ALL=C"}, .out = slave});
  ::close(slave);
  std::string screen;
  char bytes[4096];
  // The window changes its size at each drawing, to none at all, too. After the fifth the trainer ends, and
  // the end of the follower closes the terminal.
  const winsize sizes[] = {{50, 200, 0, 0}, {3, 8, 0, 0}, {0, 0, 0, 0}, {24, 80, 0, 0}};
  std::size_t before = 0;
  for (ssize_t got; (got = ::read(master, bytes, sizeof bytes)) > 0;) {
    screen.append(bytes, static_cast<std::size_t>(got));
    std::size_t drawn = 0;
    for (std::size_t at = 0; (at = screen.find("\x1b[J", at)) != std::string::npos; ++at) ++drawn;
    if (drawn == before) continue;
    before = drawn;
    if (drawn > std::size(sizes)) {
      ::kill(trainer.pid(), SIGKILL);
    } else {
      ::ioctl(master, TIOCSWINSZ, &sizes[drawn - 1]);
      ::kill(follower.pid(), SIGWINCH);
    }
  }
  ::close(master);
  trainer.wait();
  CHECK(follower.wait().code == 0);
  CHECK(has(screen, "loss (nats per token) - one"));
}

TEST_CASE("a terminal that changes its size disturbs no training") {
  const TemporaryDirectory place;
  int master = -1, slave = -1;
  winsize size{24, 80, 0, 0};
  if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) {
    WARN("no terminal can be had here (/dev/pts is missing): no size is changed");
    return;
  }
  const std::vector<std::string> settings = {"run.max_steps=400", "run.eval_interval=0"};
  Program trainer(training(place / "resized", settings), place,
                  {.environment = {"TERM=xterm", "LC_ALL=C"}, .out = slave, .err = slave});
  ::close(slave);
  std::string screen;
  char bytes[512];
  unsigned short turn = 0;
  for (ssize_t got; (got = ::read(master, bytes, sizeof bytes)) > 0; ++turn) {
    screen.append(bytes, static_cast<std::size_t>(got));
    const auto other = static_cast<unsigned short>(turn % 7 * 30);
    size.ws_row = static_cast<unsigned short>(turn % 5 * 10), size.ws_col = turn % 11 == 10 ? 65535 : other;
    ::ioctl(master, TIOCSWINSZ, &size);
    ::kill(trainer.pid(), SIGWINCH);
  }
  ::close(master);
  CAPTURE(screen);
  CHECK(trainer.wait().code == 0);
  CHECK(turn > 4);
  REQUIRE(run(training(place / "quiet", settings), place).code == 0);
  check_same_run(place / "resized", place / "quiet");
}
