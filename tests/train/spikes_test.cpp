#include "quern/train/spikes.hpp"

#include <cmath>
#include <limits>

#include "catch.hpp"
#include "quern/train/trainer.hpp"

using namespace quern;

TEST_CASE("a number's distance from the 128 before it, in their standard deviations") {
  RecentNumbers recent;
  for (int i = 0; i < 127; ++i) recent.add(i % 2);
  CHECK_FALSE(recent.z_score(100));  // one is missing
  recent.add(std::numeric_limits<double>::quiet_NaN());
  CHECK_FALSE(recent.z_score(100));
  recent.add(1);
  CHECK(recent.z_score(0.5).value() == Approx(0));
  CHECK(recent.z_score(5.5).value() == Approx(10));
  CHECK(recent.z_score(-1).value() == Approx(-3));
  for (int i = 0; i < 128; ++i) recent.add(7);
  CHECK(recent.numbers() == std::vector<double>(128, 7.0));
  CHECK_FALSE(recent.z_score(8));  // equal numbers have no scale
  std::vector<double> many(200, 1.0);
  many.back() = 2;
  CHECK(RecentNumbers(many).numbers().size() == 128);
  CHECK(RecentNumbers(many).numbers().back() == 2);
  for (int i = 0; i < 128; ++i) recent.add(i % 2 == 0 ? 1 : std::exp(2));
  CHECK(recent.z_score(std::exp(5), Scale::logarithmic).value() == Approx(4));
  CHECK(recent.z_score(0, Scale::logarithmic).value() < -1e300);
}

TEST_CASE("what is rare in a clean run is no spike: one mistake where all was right, a norm of a long tail") {
  SpikeWatch watch;
  for (int i = 0; i < 128; ++i) CHECK_FALSE(watch.see(i % 2 == 0 ? 1e-4 : 1e-2, i % 2 == 0 ? 0.1 : 1));
  CHECK_FALSE(watch.see(0.2, 30));  // 39 and 64 deviations as numbers, 2.3 and 4.0 in logarithms
  CHECK(watch.see(30, 1)->what == "loss");
  CHECK(watch.see(1e-3, 1e6)->what == "gradient norm");
}

namespace {

/// The steps that are called spikes while a small model learns a text's rhythm. At `wild_step` the learning
/// rate is fifty times what it should be.
std::vector<std::int64_t> spikes(std::uint64_t seed, std::int64_t steps, std::int64_t wild_step) {
  Config config;
  config.model.d_model = 16;
  config.model.n_layers = 1;
  config.model.n_heads = 2;
  config.model.context_length = 16;
  config.model.vocab_size = 11;
  config.model.dropout = 0.1;
  config.optim.learning_rate = 0.003;
  config.schedule.kind = ScheduleKind::constant;
  config.schedule.warmup_steps = 10;
  config.run.batch_size = 4;
  config.run.seed = seed;
  std::vector<std::int32_t> ids(2000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 11);
  Model model(config.model, true, Type::f32);
  model.parameters().initialise(seed);
  Workspace workspace;
  TrainBatches batches(WindowSampler(TokenView(ids), 16, WindowOrder::random, seed, 4), 4);
  SpikeWatch watch;
  std::vector<std::int64_t> found;
  for (std::int64_t step = 1; step <= steps; ++step) {
    Config now = config;
    if (step == wild_step) now.optim.learning_rate *= 50;
    const StepResult result = train_step(model, workspace, batches, now, step);
    if (watch.see(result.loss, result.gradient_norm)) found.push_back(step);
  }
  return found;
}

}  // namespace

TEST_CASE("a step at fifty times the rate is a spike within three; ten clean runs have none") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    CHECK(spikes(seed, 400, 0).empty());
    const auto found = spikes(seed, 304, 300);
    REQUIRE(!found.empty());
    CHECK(found.front() > 300);
    CHECK(found.front() <= 303);
  }
}
