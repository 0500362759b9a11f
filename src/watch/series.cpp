#include "quern/watch/series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quern/base/check.hpp"

namespace quern {

namespace {

double value_of(const StepEvent& step, Metric metric) {
  switch (metric) {
    case Metric::loss: return step.loss;
    case Metric::lr: return step.lr;
    case Metric::grad_norm: return step.grad_norm;
    case Metric::update_ratio: return step.update_ratio.value_or(std::numeric_limits<double>::quiet_NaN());
    case Metric::tokens_per_second: return step.tokens_per_second;
  }
  return 0;
}

/// Walks through a run's events in the order of their steps and knows the x of each.
class Clock {
 public:
  Clock(const Metrics& metrics, XAxis axis) : metrics_(metrics), axis_(axis) {}

  double at_step(const StepEvent& step) {
    pass_pauses(step.step - 1);
    seconds_ += finite(step.ms) / 1000;
    tokens_ = static_cast<double>(step.tokens);
    return x(step.step);
  }
  /// Passes everything there is and says how many seconds that took.
  double total() {
    while (step_ < metrics_.steps.size()) at_step(metrics_.steps[step_++]);
    pass_pauses(std::numeric_limits<std::int64_t>::max());
    return seconds_;
  }
  double at_eval(const EvalEvent& eval) {
    while (step_ < metrics_.steps.size() && metrics_.steps[step_].step <= eval.step)
      at_step(metrics_.steps[step_++]);
    pass_pauses(eval.step - 1);
    return x(eval.step);
  }

 private:
  static double finite(double value) { return std::isfinite(value) ? value : 0; }
  // Adds the evaluations and checkpoints up to that step.
  void pass_pauses(std::int64_t last) {
    for (; eval_ < metrics_.evals.size() && metrics_.evals[eval_].step <= last; ++eval_) {
      seconds_ += finite(metrics_.evals[eval_].seconds);
    }
    for (; save_ < metrics_.checkpoints.size() && metrics_.checkpoints[save_].step <= last; ++save_) {
      seconds_ += finite(metrics_.checkpoints[save_].seconds);
    }
  }
  double x(std::int64_t step) const {
    return axis_ == XAxis::step ? static_cast<double>(step) : axis_ == XAxis::tokens ? tokens_ : seconds_;
  }

  const Metrics& metrics_;
  XAxis axis_;
  double seconds_ = 0, tokens_ = 0;
  std::size_t step_ = 0, eval_ = 0, save_ = 0;
};

}  // namespace

std::optional<Metric> metric_named(std::string_view name) {
  if (name == "loss") return Metric::loss;
  if (name == "lr") return Metric::lr;
  if (name == "grad_norm") return Metric::grad_norm;
  if (name == "update_ratio") return Metric::update_ratio;
  if (name == "tokens_per_second") return Metric::tokens_per_second;
  return std::nullopt;
}

std::optional<XAxis> x_axis_named(std::string_view name) {
  if (name == "step") return XAxis::step;
  if (name == "tokens") return XAxis::tokens;
  if (name == "time") return XAxis::time;
  return std::nullopt;
}

std::vector<Point> step_series(const Metrics& metrics, Metric metric, XAxis axis) {
  Clock clock(metrics, axis);
  std::vector<Point> points;
  points.reserve(metrics.steps.size());
  for (const StepEvent& step : metrics.steps) points.push_back({clock.at_step(step), value_of(step, metric)});
  return points;
}

std::vector<Point> eval_series(const Metrics& metrics, XAxis axis) {
  Clock clock(metrics, axis);
  std::vector<Point> points;
  for (const EvalEvent& eval : metrics.evals) {
    if (eval.split == "val") points.push_back({clock.at_eval(eval), eval.loss});
  }
  return points;
}

double total_seconds(const Metrics& metrics) { return Clock(metrics, XAxis::time).total(); }

std::vector<Point> smooth(const std::vector<Point>& points, double weight) {
  QUERN_CHECK(weight >= 0 && weight < 1, weight);
  std::vector<Point> out(points);
  double mean = 0, missing = 1;  // missing = w^i
  for (Point& point : out) {
    if (!std::isfinite(point.y)) continue;
    mean = weight * mean + (1 - weight) * point.y;
    missing *= weight;
    point.y = mean / (1 - missing);
  }
  return out;
}

double default_smoothing(std::size_t points) {
  if (points <= 50) return 0;
  return std::min(0.99, 1 - 50.0 / static_cast<double>(points));
}

}  // namespace quern
