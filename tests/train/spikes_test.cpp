#include "quern/train/spikes.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/session.hpp"
#include "quern/train/trainer.hpp"
#include "quern/watch/metrics.hpp"

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

namespace {

/// Whole runs.
struct Fixture {
  test::TemporaryDirectory directory;
  Files files;

  void start(const std::string& name, std::vector<std::string> sets) {
    TrainRequest request;
    request.sets = std::move(sets);
    request.run_dir = directory / name;
    train(files, request);
  }
  void resume(const std::string& name, const std::string& max_steps) {
    TrainRequest request;
    request.resume = (directory / name).string();
    request.sets = {max_steps};
    train(files, request);
  }
  Metrics metrics(const std::string& name) { return read_run((directory / name).string()); }
};

const std::vector<std::string> small = {"model.d_model=16",
                                        "model.n_layers=1",
                                        "model.n_heads=2",
                                        "model.context_length=16",
                                        "model.dropout=0.1",
                                        "schedule.kind=constant",
                                        "schedule.warmup_steps=10",
                                        "optim.learning_rate=0.003",
                                        "run.batch_size=4",
                                        "run.eval_interval=0",
                                        "run.checkpoint_interval=1000"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace

TEST_CASE("a batch that stands out is an event in the metrics of its run, the same with a resume before it") {
  Fixture f;
  const auto write = [&](std::int64_t odd_line) {
    std::string lines;
    for (std::int64_t i = 0; i < 800; ++i)
      lines += "count " + std::to_string(i * 7 % 13) + "\t" +
               (i == odd_line ? "1000" : std::to_string(i % 3)) + "\n";
    test::put(f.directory / "values.tsv", lines);
  };
  const std::vector<std::string> sets =
      with(small, {"model.architecture=encoder", "data.task=regression", "data.order=shuffle",
                   "optim.grad_clip=0", "data.text=" + (f.directory / "values.tsv").string()});
  write(-1);
  const RunPlan plan = plan_run({}, sets);
  const std::string batch = TrainBatches(plan.config, plan.data).describe(144);  // of step 145
  write(std::stoll(batch.substr(batch.rfind(' '))));

  f.start("whole", with(sets, {"run.max_steps=160"}));
  f.start("pieces", with(sets, {"run.max_steps=60"}));
  for (const char* steps : {"run.max_steps=144", "run.max_steps=145", "run.max_steps=160"})
    f.resume("pieces", steps);
  const auto whole = f.metrics("whole").anomalies, pieces = f.metrics("pieces").anomalies;
  REQUIRE(!whole.empty());
  CHECK(whole.front().step == 145);
  CHECK(whole.front().kind == "spike");
  CHECK(whole.front().action == "none");
  CHECK(whole.front().loss > 1e4);
  CHECK(whole.front().text.starts_with("step 145: the loss is "));
  REQUIRE(pieces.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(pieces[i].step == whole[i].step);
    CHECK(pieces[i].z_score == whole[i].z_score);
    CHECK(pieces[i].text == whole[i].text);
  }
}

TEST_CASE("a run's step at fifty times the rate is an event in its metrics within three, resumed around it") {
  Fixture f;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 11);
  test::put(f.directory / "text", text);
  f.start("run", with(small, {"data.text=" + (f.directory / "text").string(), "run.max_steps=299"}));
  CHECK(f.metrics("run").anomalies.empty());
  const auto set_rate = [&](double rate) {  // in the run's own config, which no resume may change
    const auto path = f.directory / "run/config.resolved.json";
    auto config = nlohmann::ordered_json::parse(test::get(path));
    config["optim"]["learning_rate"] = rate;
    test::put(path, config.dump());
  };
  set_rate(50 * 0.003);
  f.resume("run", "run.max_steps=300");
  set_rate(0.003);
  f.resume("run", "run.max_steps=310");
  const Metrics metrics = f.metrics("run");
  REQUIRE(metrics.steps.size() == 310);
  CHECK(metrics.steps[299].lr == Approx(50 * metrics.steps[298].lr));
  CHECK(metrics.steps[300].lr == metrics.steps[298].lr);
  REQUIRE(!metrics.anomalies.empty());
  const AnomalyEvent& spike = metrics.anomalies.front();
  CHECK(spike.kind == "spike");
  CHECK(spike.step > 300);
  CHECK(spike.step <= 303);
}
