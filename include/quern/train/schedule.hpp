#pragma once

#include <cstdint>

#include "quern/train/config.hpp"

namespace quern {

/// The learning rate of step s (from 1), with w = warmup_steps, d = decay_steps, peak = optim.learning_rate
/// c = cooldown_steps and p = (s - w) / (d - w), at most 1:
///   s <= w         peak * s / w
///   constant       peak
///   cosine         min + (peak - min) * (1 + cos(pi p)) / 2         (Loshchilov & Hutter 2016, 1608.03983)
///   linear         min + (peak - min) * (1 - p)
///   polynomial     min + (peak - min) * (1 - p)^power
///   wsd            peak until d - c, then min + (peak - min) * (d - s) / c     (Hu et al. 2024, 2404.06395;
///                                                                     Hägele et al. 2024, 2405.18392)
///   inverse_sqrt   peak * sqrt(max(w, 1) / s)                       (Vaswani et al. 2017, section 5.3: the
///   peak is
///                                                                    d_model^-0.5 * w^-0.5 there)
double learning_rate(std::int64_t step, const OptimConfig& optim, const ScheduleConfig& schedule);

}  // namespace quern
