// A run's metrics as points to draw.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "quern/watch/metrics.hpp"

namespace quern {

struct Point {
  double x = 0;
  double y = 0;
};

/// What is drawn over what.
enum class Metric { loss, lr, grad_norm, update_ratio, tokens_per_second };
enum class XAxis { step, tokens, time };

/// "loss", "lr", "grad_norm", "update_ratio", "tokens_per_second"; anything else is nothing.
std::optional<Metric> metric_named(std::string_view name);
/// "step", "tokens", "time"; anything else is nothing.
std::optional<XAxis> x_axis_named(std::string_view name);

/// One point for each step. x is the step, the target tokens so far, or the seconds so far: the sum of what
/// steps, evaluations and checkpoints took by the steady clock, so neither a break before a resume nor a
/// changed clock shows.
std::vector<Point> step_series(const Metrics& metrics, Metric metric, XAxis axis);

/// One point for each evaluation of the validation split, at the step, tokens or seconds at which it was
/// made.
std::vector<Point> eval_series(const Metrics& metrics, XAxis axis);

/// The seconds of the whole run, counted as the time axis counts them.
double total_seconds(const Metrics& metrics);

/// Exponential moving average with bias correction: m_i = w m_(i-1) + (1 - w) y_i, out_i = m_i / (1 - w^i),
/// so the first point is y_1 itself (Kingma & Ba 2015, section 3). `weight` w in [0, 1). A y that is not
/// finite is passed on as it is and does not enter the average.
std::vector<Point> smooth(const std::vector<Point>& points, double weight);

/// A weight that averages over about a fiftieth of the points: 0 up to 50 points, 0.9 at 500, at most 0.99.
double default_smoothing(std::size_t points);

}  // namespace quern
