#pragma once

#include <string>
#include <vector>

#include "quern/train/config.hpp"

namespace quern {

/// A mistake that shows only in several fields together (or that a range cannot state).
struct CrossProblem {
  std::vector<std::string> paths;  // the fields that take part; the first is the one named
  std::string what;
  std::string hint;
};

/// The mistakes of a config whose fields are each within their range.
std::vector<CrossProblem> cross_problems(const Config& config);

/// Whether the rate falls to min_learning_rate at decay_steps; the others have no end to reach.
constexpr bool decays(ScheduleKind kind) {
  return kind != ScheduleKind::constant && kind != ScheduleKind::inverse_sqrt;
}

/// What is set, but changes nothing with the rest of the config: "schedule.power (2.0) has no effect with
/// schedule.kind "cosine"". No mistakes: a sweep over optimizers names each one's settings.
std::vector<std::string> idle_settings(const Config& config);

}  // namespace quern
