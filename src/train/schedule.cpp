#include "quern/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quern {

double learning_rate(std::int64_t step, const OptimConfig& optim, const ScheduleConfig& schedule) {
  const auto s = static_cast<double>(step), w = static_cast<double>(schedule.warmup_steps);
  const auto d = static_cast<double>(schedule.decay_steps);
  const double peak = optim.learning_rate, low = schedule.min_learning_rate;
  if (s <= w) return peak * s / w;
  if (schedule.kind == ScheduleKind::wsd) {
    const auto c = static_cast<double>(schedule.cooldown_steps);
    return s <= d - c ? peak : low + (peak - low) * std::max(0.0, (d - s) / c);
  }
  const double p = d > w ? std::min(1.0, (s - w) / (d - w)) : 1.0;
  switch (schedule.kind) {
    case ScheduleKind::constant: return peak;
    case ScheduleKind::cosine: return low + (peak - low) * (1 + std::cos(std::numbers::pi * p)) / 2;
    case ScheduleKind::linear: return low + (peak - low) * (1 - p);
    case ScheduleKind::polynomial: return low + (peak - low) * std::pow(1 - p, schedule.power);
    case ScheduleKind::wsd: break;
    case ScheduleKind::inverse_sqrt: return peak * std::sqrt(std::max(w, 1.0) / s);
  }
  return peak;
}

}  // namespace quern
