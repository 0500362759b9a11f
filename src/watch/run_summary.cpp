#include "quern/watch/run_summary.hpp"

#include <algorithm>

#include "quern/watch/format.hpp"
#include "quern/watch/series.hpp"

namespace quern {

RunSummary summarise(const Metrics& metrics) {
  RunSummary summary;
  if (!metrics.steps.empty()) {
    summary.step = metrics.steps.back().step;
    summary.tokens = metrics.steps.back().tokens;
  }
  const auto last = std::find_if(metrics.steps.rbegin(), metrics.steps.rend(),
                                 [](const StepEvent& step) { return !step.without_target(); });
  if (last != metrics.steps.rend()) summary.train_loss = last->loss;
  if (metrics.start) {
    summary.parameters = metrics.start->parameters;
    if (metrics.start->max_steps >= summary.step) summary.max_steps = metrics.start->max_steps;
  }
  if (const EvalEvent* best = best_evaluation(metrics)) summary.best = *best;
  summary.seconds = total_seconds(metrics);
  summary.started = metrics.started;
  return summary;
}

std::string status_of(const Metrics& metrics, bool in_use) {
  if (in_use) return "running";
  return metrics.end ? metrics.end->status : "killed";
}

std::string best_text(const RunSummary& summary) {
  if (!summary.best) return "none";
  return fixed(summary.best->loss, 4) + " at step " + grouped(summary.best->step);
}

}  // namespace quern
