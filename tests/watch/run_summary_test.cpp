#include "quern/watch/run_summary.hpp"

#include <cmath>
#include <limits>

#include "catch.hpp"

using namespace quern;

namespace {

Metrics some_run() {
  Metrics metrics;
  metrics.start = StartEvent{};
  metrics.start->parameters = 1234;
  metrics.start->max_steps = 40;
  metrics.started = 1.75e9;
  metrics.steps = {{1, 100, 3.5, std::nullopt, 0.1, 1, 1000, 100},
                   {2, 200, 3.25, std::nullopt, 0.1, 1, 2000, 50}};
  metrics.evals = {
      {0, "val", 4, 10, 0.5, false}, {1, "val", 2.5, 10, 0.5, true}, {2, "val", 3, 10, 0.5, false}};
  return metrics;
}

}  // namespace

TEST_CASE("a run in a line") {
  const RunSummary summary = summarise(some_run());
  CHECK(summary.step == 2);
  CHECK(summary.max_steps == 40);
  REQUIRE(summary.best);
  CHECK(summary.best->loss == 2.5);
  CHECK(summary.best->step == 1);
  CHECK(summary.train_loss == 3.25);
  CHECK(summary.parameters == 1234);
  CHECK(summary.tokens == 200);
  CHECK(summary.seconds == 4.5);
  CHECK(summary.started == 1.75e9);
  CHECK(best_text(summary) == "2.5000 at step 1");
}

TEST_CASE("a run of which nothing is known yet") {
  const RunSummary summary = summarise({});
  CHECK(summary.step == 0);
  CHECK_FALSE(summary.max_steps);
  CHECK_FALSE(summary.best);
  CHECK_FALSE(summary.train_loss);
  CHECK_FALSE(summary.parameters);
  CHECK(std::isnan(summary.started));
  CHECK(best_text(summary) == "none");
  // A start that does not tell how far it goes.
  Metrics metrics = some_run();
  metrics.start->max_steps = 0;
  CHECK_FALSE(summarise(metrics).max_steps);
  metrics.steps.clear();
  CHECK(summarise(metrics).max_steps == 0);  // one that only initialises goes to step 0
}

TEST_CASE("the training loss is that of the last step that had a target") {
  const double none = std::numeric_limits<double>::quiet_NaN();
  Metrics metrics = some_run();
  metrics.steps.push_back({3, 200, none, std::nullopt, 0.1, none, 1000, 0});
  CHECK(summarise(metrics).step == 3);
  CHECK(summarise(metrics).train_loss == 3.25);
  metrics.steps.push_back({4, 300, none, std::nullopt, 0.1, none, 1000, 100});  // it went wrong
  CHECK(std::isnan(summarise(metrics).train_loss.value()));
  metrics.steps = {metrics.steps[2]};
  CHECK_FALSE(summarise(metrics).train_loss);
}

TEST_CASE("the status is the trainer's word, unless it works or could not speak") {
  Metrics metrics = some_run();
  CHECK(status_of(metrics, false) == "killed");
  CHECK(status_of(metrics, true) == "running");
  metrics.end = EndEvent{};
  for (const char* status : {"completed", "interrupted", "diverged", "failed"}) {
    metrics.end->status = status;
    CHECK(status_of(metrics, false) == status);
    CHECK(status_of(metrics, true) == "running");
  }
}
