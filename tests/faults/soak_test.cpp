// A long run holds no more at its end than it did after its first steps.
#include "cli/runs.hpp"
#include "faults/long_tests.hpp"

// AddressSanitizer keeps what was freed.
#if !defined(__SANITIZE_ADDRESS__)

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

/// What a running program holds: descriptors, and kilobytes. Of these the least over a short while, since it
/// takes more while it writes the report. `memory` is its own, `resident` counts its files too: of the
/// program's, more is met as a report first thins its curves.
struct Held {
  std::size_t descriptors = 0;
  std::uint64_t memory = 0, resident = 0;
};

Held held(const Program& program) {
  Held least;
  for ([[maybe_unused]] const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(program.pid()) + "/fd"))
    ++least.descriptors;
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t memory = status_number(program, "RssAnon"),
                        resident = status_number(program, "VmRSS");
    if (memory == 0 || resident == 0) break;  // it has ended
    least.memory = i == 0 ? memory : std::min(least.memory, memory);
    least.resident = i == 0 ? resident : std::min(least.resident, resident);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return least;
}

}  // namespace

TEST_CASE(
    "from step 1,000 on neither memory nor descriptors grow; 3,000 steps, or 50,000 of the tiny config") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  const int steps = times(3000, 50000);
  std::vector<std::string> settings = {"run.max_steps=" + std::to_string(steps), "run.eval_interval=500",
                                       "run.checkpoint_interval=250"};
  if (steps < 50000)
    settings.insert(settings.end(), {"model.d_model=8", "model.n_layers=1", "run.batch_size=2",
                                     "model.context_length=8", "run.eval_batches=2"});
  Program program(resume_words(path, settings), directory);
  REQUIRE(wait_for_metrics(program, path, "\"step\":1000,"));
  const Held before = held(program);
  REQUIRE(wait_for_metrics(program, path, "\"step\":" + std::to_string(steps - 1000) + ","));
  const Held after = held(program);
  const Outcome o = program.wait();
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  // One more or less while a checkpoint is written.
  CHECK(after.descriptors <= before.descriptors + 2);
  INFO("own memory at step 1,000: " << before.memory << " kB, 1,000 steps before the end: " << after.memory
                                    << " kB; with files " << before.resident << " and " << after.resident);
  REQUIRE(before.memory > 0);
  REQUIRE(after.memory > 0);
  CHECK(after.memory <= before.memory + before.resident / 100);  // 200 kB: 4 bytes a step of 49,000
  CHECK(after.resident <= before.resident + 1024);
}
#endif
