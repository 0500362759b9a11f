// The curves of one or several runs as a picture for the terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/watch/metrics.hpp"
#include "quern/watch/plot.hpp"
#include "quern/watch/series.hpp"

namespace quern {

struct NamedMetrics {
  std::string name;
  Metrics metrics;
};

struct CurveOptions {
  Metric metric = Metric::loss;
  XAxis x = XAxis::step;
  std::optional<double> smoothing;  // weight of the moving average in [0, 1); nothing: default_smoothing
  PlotOptions plot;
};

/// The most runs that one picture can tell apart: each has a letter.
inline constexpr std::size_t max_runs = 26;

/// Draws `runs` (1 to max_runs of them). One run: raw points faint, over them the smoothed line, the
/// validation loss as marks, the entropy floor as a level. Several: a smoothed line and marks for each, told
/// apart by colour and letter; raw points are left out. Floors are drawn when all runs that know one agree.
/// The learning rate is never smoothed unless a weight is given.
std::string curves_picture(const std::vector<NamedMetrics>& runs, const CurveOptions& options);

/// The losses over the steps.
inline std::string loss_picture(const std::vector<NamedMetrics>& runs, const PlotOptions& plot) {
  return curves_picture(runs, {Metric::loss, XAxis::step, std::nullopt, plot});
}

/// Reads runs (directories or metrics.jsonl files) and names each by the last part of its path, or by the
/// whole path where two would share a name. Throws what read_run throws.
std::vector<NamedMetrics> read_runs(const std::vector<std::string>& paths);

}  // namespace quern
