#include "roofline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "quern/watch/canvas.hpp"
#include "quern/watch/format.hpp"

namespace quern::cli {

namespace {

constexpr int columns = 70, rows = 14;
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";

enum Layer { line_layer, point_layer };

/// A logarithmic axis over so many dots.
struct Axis {
  double low, high;
  int dots;

  int at(double value) const {
    const double share = std::log(value / low) / std::log(high / low);
    return std::clamp(static_cast<int>(std::lround(share * (dots - 1))), 0, dots - 1);
  }
};

/// Room of a factor of `margin` around all values.
Axis axis_of(const std::vector<double>& values, double margin, int dots) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least / margin, *most * margin, dots};
}

/// 1, 2 and 5 times the powers of ten on an axis, and the dots at which they lie.
std::vector<std::pair<double, int>> ticks_of(const Axis& axis) {
  std::vector<std::pair<double, int>> found;
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high; decade *= 10)
    for (const double value : {decade, 2 * decade, 5 * decade})
      if (value >= axis.low && value <= axis.high) found.emplace_back(value, axis.at(value));
  return found;
}

std::string legend(const std::vector<RooflinePoint>& points) {
  std::string text, line;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string entry = std::string(1, letters[i % letters.size()]) + " " + points[i].name;
    if (!line.empty() && line.size() + entry.size() + 3 > 80) text += line + "\n", line.clear();
    line += (line.empty() ? "" : "   ") + entry;
  }
  return text + line + "\n";
}

}  // namespace

std::string roofline(const std::vector<RooflinePoint>& points, const std::vector<Roof>& roofs,
                     double gigabytes_per_second, const Terminal& terminal) {
  if (points.empty()) return "";
  Canvas canvas(columns, rows, terminal.utf8);
  std::vector<double> xs, ys;
  for (const RooflinePoint& point : points) xs.push_back(point.flops_per_byte), ys.push_back(point.gflops);
  for (const Roof& roof : roofs) xs.push_back(roof.gflops / gigabytes_per_second), ys.push_back(roof.gflops);
  const Axis x = axis_of(xs, 3, canvas.dot_columns()), y = axis_of(ys, 1.6, canvas.dot_rows());
  const auto from_top = [&](double gflops) { return canvas.dot_rows() - 1 - y.at(gflops); };

  std::string text = "roofline: GFLOP/s over FLOP/byte; roofs:";
  for (const Roof& roof : roofs) {
    const double ridge = roof.gflops / gigabytes_per_second;
    const double begin = std::max(x.low, y.low / gigabytes_per_second);
    canvas.line(x.at(begin), from_top(begin * gigabytes_per_second), x.at(ridge), from_top(roof.gflops),
                {line_layer, "2", '/'});
    canvas.line(x.at(ridge), from_top(roof.gflops), canvas.dot_columns() - 1, from_top(roof.gflops),
                {line_layer, "2", '-'});
    text += " " + roof.name + " " + compact(roof.gflops) + ",";
  }
  for (std::size_t i = 0; i < points.size(); ++i)
    canvas.put(x.at(points[i].flops_per_byte) / canvas.dots_across(),
               from_top(points[i].gflops) / canvas.dots_down(), letters.substr(i % letters.size(), 1),
               {point_layer, "36"});

  std::vector<std::string> left(static_cast<std::size_t>(rows));
  for (const auto& [value, dot] : ticks_of(y))
    left[static_cast<std::size_t>((canvas.dot_rows() - 1 - dot) / canvas.dots_down())] = compact(value);
  text += " slope " + fixed(gigabytes_per_second, 1) + " GB/s\n";
  for (int row = 0; row < rows; ++row) {
    char axis[16];
    std::snprintf(axis, sizeof axis, "%6s %s", left[static_cast<std::size_t>(row)].c_str(),
                  terminal.utf8 ? "│" : "|");
    text += axis + canvas.row(row, terminal.colour) + "\n";
  }
  std::string below(8 + columns, ' ');
  for (const auto& [value, dot] : ticks_of(x)) {
    const std::string label = compact(value);
    const std::size_t at = 7 + static_cast<std::size_t>(dot / canvas.dots_across());
    const bool free = at + label.size() <= below.size() && (at == 0 || below[at - 1] == ' ');
    if (free) below.replace(at, label.size(), label);
  }
  below.erase(below.find_last_not_of(' ') + 1);
  return text + below + "\n" + legend(points);
}

}  // namespace quern::cli
