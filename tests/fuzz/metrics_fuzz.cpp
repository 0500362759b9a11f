#include "quern/watch/metrics.hpp"

#include "quern/watch/series.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

void read_events(std::string_view input) {
  const Metrics metrics = read_metrics(input_file("metrics.jsonl", input));
  best_evaluation(metrics);
  for (std::size_t i = 1; i < metrics.steps.size(); ++i)
    require(metrics.steps[i - 1].step < metrics.steps[i].step, "steps rise");
  for (const XAxis axis : {XAxis::step, XAxis::tokens, XAxis::time}) {
    require(step_series(metrics, Metric::loss, axis).size() == metrics.steps.size(), "a point for each step");
    eval_series(metrics, axis);
  }
}

const RegisterTarget metrics({"metrics", read_events});

}  // namespace
}  // namespace quern::test
