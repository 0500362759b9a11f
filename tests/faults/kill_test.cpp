// kill -9 at any instant loses nothing that a resume does not make again.
#include <random>

#include "cli/runs.hpp"
#include "faults/long_tests.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE("kill -9 at 50 random instants: the run ends as if nothing had been, bit for bit") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run(resume_words(whole, {}), directory).code == 0);
  const std::chrono::duration<double> uninterrupted = std::chrono::steady_clock::now() - begin;

  // 0: as often as 1 % of the time allows. Half a run's time a start, so that a run sees several kills.
  const std::vector<std::string> intervals = {"run.checkpoint_interval=0", "run.checkpoint_interval=1",
                                              "run.checkpoint_interval=7"};
  std::mt19937 random(50);
  const int wanted = times(50, 2000);
  int kills = 0, finished = 0;
  for (int starts = 0; kills < wanted && starts < 10 * wanted; ++starts) {
    const std::string& interval = intervals[static_cast<std::size_t>(starts) % intervals.size()];
    Program program(resume_words(path, {interval}), directory);
    sleep_for_random(uninterrupted.count() / 2, static_cast<std::uint32_t>(random()));
    ::kill(program.pid(), SIGKILL);
    const Outcome o = program.wait();
    CAPTURE(starts, interval, o.err);
    REQUIRE((o.code == 0 || o.code == 128 + SIGKILL));
    kills += o.code != 0;
    if (o.code != 0) continue;
    ++finished;
    check_same_run(path, whole);
    fs::remove_all(path);
  }
  CHECK(kills == wanted);
  REQUIRE(run(resume_words(path, {}), directory).code == 0);
  check_same_run(path, whole);
}

TEST_CASE("kill -9 in the middle of an evaluation: it is done again, and the run ends the same") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  // The evaluation after step 2 takes most of the time; the checkpoint before it is durable by then.
  const std::vector<std::string> settings = {"run.max_steps=3", "run.eval_interval=2", "run.eval_batches=150",
                                             "data.eval_stride=1", "run.checkpoint_interval=1"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  int within = 0;
  for (int attempt = 0; attempt < 20 && within < 3; ++attempt) {
    if (!stopped_at(path, settings, "ckpt/step-000000002", SIGKILL, directory)) continue;
    if (has(get(path / "metrics.jsonl"), "\"eval\",\"step\":2")) continue;  // it was faster
    std::size_t evaluations = 0;
    for (const std::string& line : recorded(path)) evaluations += has(line, "\"eval\"");
    if (evaluations != 1) continue;
    ++within;
    REQUIRE(run(resume_words(path, settings), directory).code == 0);
    check_same_run(path, whole);
  }
  CHECK(within == 3);
}

TEST_CASE(
    "kill -9 while the report is written: the page is the old one or the new one, and a resume makes it") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  const auto page = [&] { return get(path / "report.html"); };
  const auto is_whole = [](const std::string& text) { return text.ends_with("</html>\n"); };
  const auto settings = [](int steps) {
    return std::vector<std::string>{"run.max_steps=" + std::to_string(steps), "run.eval_interval=0"};
  };
  std::mt19937 random(3);
  int within = 0;
  for (int steps = 10; steps < 2000 && within < times(5, 50); steps += 10) {
    const std::string before = page();
    Program program(resume_words(path, settings(steps)), directory);
    if (!wait_for_metrics(program, path, "\"end\",")) continue;
    sleep_for_random(0.003, static_cast<std::uint32_t>(random()));
    ::kill(program.pid(), SIGKILL);
    program.wait();
    const std::string after = page();
    CAPTURE(steps);
    CHECK((after.empty() || is_whole(after)));
    within += after == before;  // the run had ended, and its page was not there yet
    REQUIRE(run(resume_words(path, settings(steps)), directory).code == 0);
    CHECK(is_whole(page()));
    CHECK(page() != before);
    for (const auto& entry : fs::directory_iterator(path)) CHECK_FALSE(has(entry.path().filename(), ".tmp-"));
  }
  CHECK(within == times(5, 50));
}

TEST_CASE("kill -9 of a sweep: its runs save and end, and the same command goes on to the same results") {
  const TemporaryDirectory directory;
  const auto words = [&](const char* name) {
    return std::vector<std::string>{"sweep",
                                    "--config",
                                    configs + "tiny.json",
                                    "--grid",
                                    "optim.learning_rate=1e-2,1e-3",
                                    "--seeds",
                                    "2",
                                    "--set",
                                    "run.threads=1",
                                    "--jobs",
                                    "2",
                                    "--dir",
                                    (directory / name).string(),
                                    "--json"};
  };
  const auto begin = std::chrono::steady_clock::now();
  const Outcome whole = run(words("whole"), directory);
  const std::chrono::duration<double> uninterrupted = std::chrono::steady_clock::now() - begin;
  REQUIRE(whole.code == 0);
  std::mt19937 random(11);
  int kills = 0;
  Outcome last;
  for (int starts = 0; starts < 200; ++starts) {
    Program program(words("killed"), directory);
    if (kills < times(5, 50)) {
      sleep_for_random(uninterrupted.count() / 2, static_cast<std::uint32_t>(random()));
      ::kill(program.pid(), SIGKILL);
    }
    last = program.wait();
    CAPTURE(starts, last.err);
    REQUIRE((last.code == 0 || last.code == 128 + SIGKILL));
    if (last.code == 0) break;
    ++kills;
  }
  REQUIRE(last.code == 0);
  CHECK(kills > 0);
  CHECK(nlohmann::json::parse(last.out).at("settings") == nlohmann::json::parse(whole.out).at("settings"));
  for (const char* name : {"learning_rate=1e-2,seed=1", "learning_rate=1e-2,seed=2",
                           "learning_rate=1e-3,seed=1", "learning_rate=1e-3,seed=2"})
    check_same_run(directory / "killed" / name, directory / "whole" / name);
}

TEST_CASE("kill -9 around rollbacks: the run takes the same ways and ends the same") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  // One of the numbers to tell is so large that no step with it is finite.
  std::string lines;
  for (int i = 0; i < 400; ++i)
    lines +=
        "count " + std::to_string(i * 7 % 13) + "\t" + (i == 130 ? "1e30" : std::to_string(i % 3)) + "\n";
  put(directory / "values.tsv", lines);
  const std::vector<std::string> settings = {
      "model.architecture=encoder", "data.task=regression",
      "data.order=shuffle",         "data.text=" + (directory / "values.tsv").string(),
      "optim.grad_clip=0",          "run.on_nonfinite=rollback",
      "run.max_steps=150",          "run.checkpoint_interval=11"};
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  const std::chrono::duration<double> uninterrupted = std::chrono::steady_clock::now() - begin;
  REQUIRE(has(get(whole / "metrics.jsonl"), "\"rollback\""));
  std::mt19937 random(7);
  for (int kills = 0; kills < times(10, 200);) {
    Program program(resume_words(path, settings), directory);
    sleep_for_random(uninterrupted.count(), static_cast<std::uint32_t>(random()));
    ::kill(program.pid(), SIGKILL);
    const Outcome o = program.wait();
    CAPTURE(kills, o.err);
    REQUIRE((o.code == 0 || o.code == 128 + SIGKILL));
    kills += o.code != 0;
    if (o.code != 0) continue;
    check_same_run(path, whole);
    fs::remove_all(path);
  }
  REQUIRE(run(resume_words(path, settings), directory).code == 0);
  check_same_run(path, whole);
}

TEST_CASE("kill -9 of programs that look at a run while it trains: it ends the same") {
  const TemporaryDirectory directory, watching;
  const fs::path path = directory / "run", whole = directory / "whole";
  const std::vector<std::string> settings = {"run.max_steps=600", "run.checkpoint_interval=7"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  Program program(resume_words(path, settings), directory);
  REQUIRE(wait_for_metrics(program, path, "\"step\":1,"));
  std::mt19937 random(24);
  int kills = 0;
  for (int i = 0; !has_ended(program); ++i) {
    // The report, of some 20 ms, is written where the run's own one lies.
    Program watcher({i % 4 == 0 ? "curves" : "report", path.string()}, watching);
    sleep_for_random(0.03, static_cast<std::uint32_t>(random()));
    ::kill(watcher.pid(), SIGKILL);
    kills += watcher.wait().code == 128 + SIGKILL;
  }
  const Outcome o = program.wait();
  CAPTURE(o.err);
  CHECK(o.code == 0);
  CHECK(kills > 5);
  check_same_run(path, whole);
  REQUIRE(run(resume_words(path, settings), directory).code == 0);  // the next trainer tidies up
  for (const auto& entry : fs::directory_iterator(path)) CHECK_FALSE(has(entry.path().filename(), ".tmp-"));
}
