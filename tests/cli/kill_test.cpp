// kill -9 at any instant loses nothing that a resume does not make again.
#include <random>

#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE("30 times kill -9 at random instants: the run ends as if nothing had been, bit for bit") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run(resume_words(whole, {}), directory).code == 0);
  const std::chrono::duration<double> uninterrupted = std::chrono::steady_clock::now() - begin;

  // 0: as often as 1 % of the time allows. Half a run's time a start, so that a run sees several kills.
  const std::vector<std::string> intervals = {"run.checkpoint_interval=0", "run.checkpoint_interval=1",
                                              "run.checkpoint_interval=7"};
  std::mt19937 random(30);
  int kills = 0, finished = 0;
  for (int starts = 0; kills < 30 && starts < 300; ++starts) {
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
  CHECK(kills == 30);
  REQUIRE(run(resume_words(path, {}), directory).code == 0);
  check_same_run(path, whole);
}
