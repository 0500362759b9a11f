// The clock of the machine jumps, or is wrong from the start.
#include <algorithm>
#include <map>
#include <optional>

#include "cli/runs.hpp"

// AddressSanitizer is to be the first library; libfaketime would come before it.
#if !defined(__SANITIZE_ADDRESS__)

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

/// A start under libfaketime, which lies about the time of day, as `settings` say, and not about what has
/// passed; none, which is said, where it is missing.
std::optional<Start> faked(std::vector<std::string> settings) {
  std::error_code none;
  for (const auto& folder : fs::directory_iterator("/usr/lib", none)) {
    const fs::path library = folder.path() / "faketime/libfaketime.so.1";
    if (!fs::exists(library, none)) continue;
    settings.insert(settings.end(), {"LD_PRELOAD=" + library.string(), "DONT_FAKE_MONOTONIC=1",
                                     "FAKETIME_DONT_FAKE_MONOTONIC=1"});
    return Start{.environment = settings};
  }
  WARN("libfaketime is missing (tools/setup.sh test): the clock does not jump");
  return std::nullopt;
}

void check_durations(const fs::path& path) {
  std::istringstream metrics(get(path / "metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const auto event = nlohmann::json::parse(line);
    CAPTURE(line);
    for (const char* name :
         {"ms", "data_ms", "forward_ms", "backward_ms", "optimizer_ms", "tokens_per_second", "seconds"}) {
      if (!event.contains(name)) continue;
      CHECK(event[name].get<double>() >= 0);
      CHECK(event[name].get<double>() < 1e6);
    }
  }
}

}  // namespace

TEST_CASE("years forth and back, 1970 and 2038: durations are what passed, and the run is the same") {
  const TemporaryDirectory directory;
  const fs::path whole = directory / "whole", clock = directory / "clock";
  const auto start = faked({"FAKETIME_TIMESTAMP_FILE=" + clock.string(), "FAKETIME_NO_CACHE=1"});
  if (!start) return;
  const std::vector<std::string> settings = {"run.max_steps=300", "run.checkpoint_interval=100",
                                             "run.eval_interval=100"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  const std::map<std::string, std::string> jumps = {
      {"+0", "+1y"}, {"+1y", "-1y"}, {"1970-01-01 00:00:01", "2038-01-19 03:14:00"}};
  int number = 0;
  for (const auto& [first, second] : jumps) {
    const fs::path path = directory / ("run" + std::to_string(number++));
    put(clock, first + "\n");
    Program program(resume_words(path, settings), directory, *start);
    CAPTURE(first, second);
    REQUIRE(wait_for_metrics(program, path, "\"step\":20,"));
    put(clock, second + "\n");
    REQUIRE(wait_for_metrics(program, path, "\"step\":120,"));
    put(clock, first + "\n");
    const Outcome o = program.wait();
    CAPTURE(o.err);
    CHECK(o.code == 0);
    CHECK(!has(o.err, "ETA ?"));
    CHECK(!has(o.err, "ETA -"));
    check_durations(path);
    check_same_run(path, whole);
  }
  // A checkpoint is chosen by its step, whatever the dates of the files.
  fs::last_write_time(directory / "run0/ckpt/step-000000100", fs::file_time_type::clock::now());
  fs::last_write_time(directory / "run0/ckpt/step-000000300", fs::file_time_type::min());
  const Outcome o =
      run({"sample", "--run", (directory / "run0").string(), "--max-new-tokens", "1"}, directory);
  CHECK(o.code == 0);
  const Outcome resumed = run(resume_words(directory / "run0", {"run.max_steps=301"}), directory);
  CHECK(has(resumed.err, "resumed after step 300"));
}

TEST_CASE("TensorBoard reads a run's files in the order of their steps, whatever the clock said") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  std::vector<std::string> written;  // in the order in which they came
  int steps = 0;
  for (const char* time : {"+1y", "-1y", "1970-01-01 00:00:01", "2038-01-19 03:14:07", "+0"}) {
    steps += 10;
    const auto start = faked({std::string("FAKETIME=") + time});
    if (!start) return;
    const Outcome o = run(resume_words(path, {"watch.tensorboard=true", "run.checkpoint_interval=10",
                                              "run.max_steps=" + std::to_string(steps)}),
                          directory, *start);
    CAPTURE(time, o.err);
    REQUIRE(o.code == 0);
    for (const auto& file : fs::directory_iterator(path / "tb"))
      if (const std::string name = file.path().filename(); std::ranges::count(written, name) == 0)
        written.push_back(name);
  }
  CHECK(written.size() == 5);
  CHECK(std::ranges::is_sorted(written));  // TensorBoard goes by the names
}
#endif
