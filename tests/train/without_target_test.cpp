// Masks that hide nothing: steps and evaluations of few tokens.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::TemporaryDirectory;

namespace {

/// A masked language model of rows of two tokens, one row a step: three of four steps hide none.
struct Fixture {
  TemporaryDirectory directory;
  Files files;

  explicit Fixture(std::vector<std::string> sets) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * i % 7);
    test::put(directory / "text.txt", text);
    for (const char* set :
         {"model.architecture=encoder", "model.d_model=8", "model.n_layers=1", "model.n_heads=1",
          "model.context_length=2", "run.batch_size=1", "run.max_steps=200", "schedule.warmup_steps=0",
          "data.val_fraction=0.01", "optim.label_smoothing=0.1"})
      sets.emplace_back(set);
    sets.push_back("data.text=" + (directory / "text.txt").string());
    TrainRequest request;
    request.sets = std::move(sets);
    request.run_dir = directory / "run";
    CHECK(train(files, request).exit_code == 0);
  }
  Metrics metrics() { return read_run((directory / "run").string()); }
};

}  // namespace

TEST_CASE("a step without a target has null for what it does not have, and is no anomaly") {
  Fixture f({"run.eval_interval=0"});
  std::istringstream lines(test::get(f.directory / "run/metrics.jsonl"));
  int none = 0, some = 0;
  std::int64_t tokens = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") != "step") continue;
    const bool has_target = event.at("tokens") > tokens;
    tokens = event.at("tokens");
    (has_target ? some : none)++;
    CHECK((event.at("tokens_per_second") > 0) == has_target);
    for (const char* name : {"loss", "smoothed_loss", "grad_norm"})
      CHECK(event.at(name).is_null() == !has_target);
    CHECK(event.contains("update_ratio") == has_target);
    CHECK(event.at("lr").is_number());
  }
  CHECK(none > 100);
  CHECK(some > 20);
  const Metrics metrics = f.metrics();
  REQUIRE(metrics.steps.size() == 200);
  CHECK(metrics.anomalies.empty());
  CHECK(metrics.end->status == "completed");
  CHECK(std::count_if(metrics.steps.begin(), metrics.steps.end(),
                      [](const StepEvent& step) { return step.without_target(); }) == none);
}

TEST_CASE("an evaluation of two tokens tells one of them, whatever the seed") {
  for (int seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Fixture f({"run.max_steps=2", "run.seed=" + std::to_string(seed)});
    const Metrics metrics = f.metrics();
    REQUIRE(metrics.evals.size() == 2);
    for (const EvalEvent& eval : metrics.evals) {
      CHECK(eval.tokens >= 1);
      CHECK(std::isfinite(eval.loss));
      CHECK(!eval.metrics.empty());
    }
  }
}
