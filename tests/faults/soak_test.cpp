// A long run holds no more at its end than it did after its first steps.
#include "cli/runs.hpp"
#include "faults/long_tests.hpp"

// AddressSanitizer keeps what was freed.
#if !defined(__SANITIZE_ADDRESS__)

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

/// Descriptors of a running program.
std::size_t descriptors(const Program& program) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(program.pid()) + "/fd"))
    ++count;
  return count;
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
  const std::size_t before = descriptors(program);
  REQUIRE(wait_for_metrics(program, path, "\"step\":" + std::to_string(steps * 9 / 10) + ","));
  const std::size_t after = descriptors(program);
  const Outcome o = program.wait();
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  // One more or less while a checkpoint is written.
  CHECK(after <= before + 2);
  std::istringstream metrics(get(path / "metrics.jsonl"));
  double at_1000 = 0, highest = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") != "step") continue;
    const double rss = event.at("rss").get<double>();
    if (event.at("step") <= 1000) at_1000 = std::max(at_1000, rss);
    highest = std::max(highest, rss);
  }
  INFO("resident up to step 1,000: " << at_1000 << ", up to the end: " << highest
                                     << ", descriptors: " << before << " and " << after);
  CHECK(highest <= 1.01 * at_1000);
}
#endif
