#include "quern/watch/series.hpp"

#include <cmath>
#include <limits>

#include "catch.hpp"

using namespace quern;

namespace {

StepEvent step(std::int64_t number, double ms) {
  return {number, 100 * number, 3.0 / static_cast<double>(number), std::nullopt, 0.5, 0.25, ms, 7};
}

Metrics run() {
  Metrics metrics;
  metrics.evals = {{0, "val", 5, 1, 2.0, false},
                   {2, "val", 4, 1, 4.0, false},
                   {2, "test", 9, 1, 8.0, false},
                   {3, "val", 3, 1, 1.0, false}};
  metrics.checkpoints = {{2, "x", 0.5}};
  metrics.steps = {step(1, 1000), step(2, 2000), step(3, 3000)};
  return metrics;
}

std::vector<double> xs(const std::vector<Point>& points) {
  std::vector<double> out;
  for (const Point& point : points) out.push_back(point.x);
  return out;
}

}  // namespace

TEST_CASE("steps and evaluations stand at their step, tokens and seconds") {
  const Metrics metrics = run();
  using Values = std::vector<double>;
  CHECK(xs(step_series(metrics, Metric::loss, XAxis::step)) == Values{1, 2, 3});
  CHECK(xs(step_series(metrics, Metric::loss, XAxis::tokens)) == Values{100, 200, 300});
  // The evaluation before step 1 takes 2 s, those and the checkpoint after step 2 together 12.5 s.
  CHECK(xs(step_series(metrics, Metric::loss, XAxis::time)) == Values{3, 5, 20.5});
  CHECK(xs(eval_series(metrics, XAxis::step)) == Values{0, 2, 3});
  CHECK(xs(eval_series(metrics, XAxis::tokens)) == Values{0, 200, 300});
  CHECK(xs(eval_series(metrics, XAxis::time)) == Values{0, 5, 20.5});
  CHECK(eval_series(metrics, XAxis::step)[1].y == 4);
}

TEST_CASE("the seconds of a run are all its steps and pauses") {
  CHECK(total_seconds(run()) == 21.5);  // 6 s of steps, 15 s of evaluations, 0.5 s for the checkpoint
  CHECK(total_seconds(Metrics{}) == 0);
}

TEST_CASE("each metric has its own values") {
  const Metrics metrics = run();
  CHECK(step_series(metrics, Metric::loss, XAxis::step)[1].y == 1.5);
  CHECK(step_series(metrics, Metric::lr, XAxis::step)[1].y == 0.5);
  CHECK(step_series(metrics, Metric::grad_norm, XAxis::step)[1].y == 0.25);
  CHECK(step_series(metrics, Metric::tokens_per_second, XAxis::step)[1].y == 7);
  CHECK(metric_named("grad_norm") == Metric::grad_norm);
  CHECK_FALSE(metric_named("gnorm"));
  CHECK(x_axis_named("time") == XAxis::time);
  CHECK_FALSE(x_axis_named("wall"));
}

TEST_CASE("smoothing is the bias-corrected average, by its definition") {
  const std::vector<double> values = {4, 2, std::numeric_limits<double>::quiet_NaN(), 3, 1};
  std::vector<Point> points;
  for (const double value : values) points.push_back({static_cast<double>(points.size()), value});
  const double w = 0.6;
  const std::vector<Point> smoothed = smooth(points, w);
  std::vector<double> seen;
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(smoothed[i].x == points[i].x);
    if (std::isnan(values[i])) {
      CHECK(std::isnan(smoothed[i].y));
      continue;
    }
    seen.push_back(values[i]);
    double sum = 0, weights = 0;
    for (std::size_t j = 0; j < seen.size(); ++j) {
      const double weight = std::pow(w, static_cast<double>(seen.size() - 1 - j));
      sum += weight * seen[j];
      weights += weight;
    }
    CHECK(smoothed[i].y == Approx(sum / weights).epsilon(1e-14));  // a handful of roundings of 1.1e-16
  }
  CHECK(smooth(points, 0)[4].y == 1);
  CHECK(smooth({}, 0.5).empty());
}

TEST_CASE("the default smoothing spans about a fiftieth of the run") {
  CHECK(default_smoothing(10) == 0);
  CHECK(default_smoothing(500) == Approx(0.9));
  CHECK(default_smoothing(100000000) == 0.99);
}
