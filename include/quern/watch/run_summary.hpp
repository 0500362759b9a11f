// A run in a line.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "quern/watch/metrics.hpp"

namespace quern {

/// What a run's metrics come to.
struct RunSummary {
  std::int64_t step = 0;                   // steps done
  std::optional<std::int64_t> max_steps;   // the run ends after this step; nothing: not told
  std::optional<EvalEvent> best;           // lowest validation loss
  std::optional<double> train_loss;        // of the last step that had a target
  std::optional<std::int64_t> parameters;  // trainable numbers; nothing: not told
  std::int64_t tokens = 0;                 // target tokens since step 0
  double seconds = 0;                      // as the time axis of curves counts them
  double started = std::numeric_limits<double>::quiet_NaN();  // UTC seconds since 1970; NaN: not told
};

RunSummary summarise(const Metrics& metrics);

/// "running" while a trainer holds the run's lock; else what its last process said at its end ("completed",
/// "interrupted", "diverged" or "failed"), and "killed" when it said nothing.
std::string status_of(const Metrics& metrics, bool in_use);

/// "0.2335 at step 2,000"; "none" without an evaluation.
std::string best_text(const RunSummary& summary);

}  // namespace quern
