// Runs as a table for other programs.
#pragma once

#include <string>
#include <vector>

#include "quern/watch/curves.hpp"

namespace quern {

/// CSV (RFC 4180, lines ending in a newline alone) with a line of names, then for each run its steps and the
/// evaluations of the validation split, by step:
///   run event step tokens seconds loss lr grad_norm tokens_per_second ms data_ms forward_ms backward_ms
///   optimizer_ms rss update_ratio, and the metrics that tasks have
/// event is "step" or "eval"; seconds count from the run's start as the time axis does. What a row does not
/// have or what is not finite is empty; numbers read back to the same value.
std::string curves_csv(const std::vector<NamedMetrics>& runs);

/// The names of the tasks' metrics, in the order in which they first occur.
std::vector<std::string> task_metric_names(const std::vector<EvalEvent>& evals);
/// NaN where the evaluation has no such metric.
double task_metric(const EvalEvent& eval, const std::string& name);

}  // namespace quern
