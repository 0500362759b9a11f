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
    fs::remove_all(path);
    Program program(resume_words(path, settings), directory);
    if (!wait_for_metrics(program, path, "ckpt/step-000000002")) continue;
    ::kill(program.pid(), SIGKILL);
    program.wait();
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
