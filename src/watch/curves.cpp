#include "quern/watch/curves.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "quern/watch/format.hpp"

namespace quern {

namespace {

std::string title_of(Metric metric) {
  switch (metric) {
    case Metric::loss: return "loss (nats per token)";
    case Metric::lr: return "learning rate";
    case Metric::grad_norm: return "gradient norm before clipping";
    case Metric::update_ratio: return "norm of an update over that of the weights";
    case Metric::tokens_per_second: return "target tokens per second";
  }
  return {};
}

std::string value_text(double value, Metric metric) {
  switch (metric) {
    case Metric::loss: return fixed(value, 3);
    case Metric::tokens_per_second: return compact(value);
    case Metric::lr:
    case Metric::grad_norm:
    case Metric::update_ratio: return scientific(value, 3);
  }
  return {};
}

// A smoothing weight as the user would type it: no more digits than it takes.
std::string weight_text(double weight) {
  std::string text = fixed(weight, 3);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

/// Divides seconds by a unit that keeps the numbers small; returns the axis' label.
std::string scale_time(std::vector<Curve>& curves) {
  double longest = 0;
  for (const Curve& curve : curves) {
    for (const Point& point : curve.points) longest = std::max(longest, point.x);
  }
  const auto [unit, name] = longest < 300     ? std::pair(1.0, "seconds")
                            : longest < 10800 ? std::pair(60.0, "minutes")
                                              : std::pair(3600.0, "hours");
  for (Curve& curve : curves) {
    for (Point& point : curve.points) point.x /= unit;
  }
  return name;
}

std::string last_value(const std::vector<Point>& points, Metric metric) {
  return points.empty() ? std::string() : " " + value_text(points.back().y, metric);
}

/// Where the best evaluation is not the last; of a single run also that it is.
std::string best_value(const Metrics& metrics, bool alone) {
  const EvalEvent* best = best_evaluation(metrics);
  if (!best || best->step == 0) return {};
  if (best == &metrics.evals.back()) return alone ? " (best)" : "";
  return " (best " + fixed(best->loss, 3) + " at step " + grouped(best->step) + ")";
}

/// A point for each step that has the number: a line passes over those without a target.
std::vector<Point> drawn_steps(const Metrics& metrics, const CurveOptions& options) {
  std::vector<Point> points = step_series(metrics, options.metric, options.x);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!std::isnan(points[i].y) || !metrics.steps[i].without_target()) points[kept++] = points[i];
  points.resize(kept);
  return points;
}

void add_run(Figure& figure, const NamedMetrics& run, int index, const CurveOptions& options) {
  const bool alone = !figure.letters;
  std::vector<Point> raw = drawn_steps(run.metrics, options);
  const double automatic = options.metric == Metric::lr ? 0 : default_smoothing(raw.size());
  const double weight = options.smoothing.value_or(automatic);
  const bool is_loss = options.metric == Metric::loss;

  Curve line{{}, Stroke::line, smooth(raw, weight), index};
  line.label = alone ? (is_loss ? "train" : "smoothed") : run.name + (is_loss ? ": train" : ":");
  if (alone && weight == 0 && !is_loss) line.label = "each step, last";
  line.label += last_value(line.points, options.metric);
  if (weight > 0) line.label += alone ? " (smoothing " + weight_text(weight) + ")" : "";
  if (weight > 0 && alone) figure.curves.push_back({"each step", Stroke::faint, std::move(raw), index});
  figure.curves.push_back(std::move(line));
  if (!is_loss) return;
  std::vector<Point> evals = eval_series(run.metrics, options.x);
  if (evals.empty()) return;
  const std::string label = "val" + last_value(evals, options.metric) + best_value(run.metrics, alone);
  figure.curves.push_back({label, Stroke::marks, std::move(evals), alone ? index + 1 : index});
}

/// The entropy floor, when every run that knows one knows the same.
std::optional<double> common_floor(const std::vector<NamedMetrics>& runs) {
  std::optional<double> floor;
  for (const NamedMetrics& run : runs) {
    if (!run.metrics.start || !run.metrics.start->entropy_floor) continue;
    const double value = *run.metrics.start->entropy_floor;
    if (!std::isfinite(value) || (floor && *floor != value)) return std::nullopt;
    floor = value;
  }
  return floor;
}

}  // namespace

std::string curves_picture(const std::vector<NamedMetrics>& runs, const CurveOptions& options) {
  QUERN_CHECK(!runs.empty() && runs.size() <= max_runs, runs.size());
  Figure figure;
  figure.whole_x = options.x != XAxis::time;
  figure.letters = runs.size() > 1;
  figure.title = title_of(options.metric);
  if (!figure.letters) figure.title += (options.plot.utf8 ? " · " : " - ") + runs.front().name;
  for (std::size_t i = 0; i < runs.size(); ++i) add_run(figure, runs[i], static_cast<int>(i), options);
  if (options.metric == Metric::loss) figure.level = common_floor(runs);
  if (figure.level) figure.level_label = "entropy of the text " + fixed(*figure.level, 3);
  switch (options.x) {
    case XAxis::step: figure.x_label = "step"; break;
    case XAxis::tokens: figure.x_label = "target tokens"; break;
    case XAxis::time: figure.x_label = scale_time(figure.curves); break;
  }
  return draw(figure, options.plot);
}

std::vector<NamedMetrics> read_runs(const std::vector<std::string>& paths) {
  std::vector<NamedMetrics> runs;
  for (const std::string& path : paths) {
    std::filesystem::path place = without_slash(std::filesystem::path(path).lexically_normal());
    if (place.filename() == "metrics.jsonl" && place.has_parent_path()) place = place.parent_path();
    runs.push_back({place.filename().string(), read_run(path)});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto same = [&](const NamedMetrics& run) { return run.name == runs[i].name; };
    if (std::count_if(runs.begin(), runs.end(), same) < 2) continue;
    const std::string name = runs[i].name;
    for (std::size_t j = i; j < runs.size(); ++j) {
      if (runs[j].name == name) runs[j].name = paths[j];
    }
  }
  return runs;
}

}  // namespace quern
