#include "quern/watch/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/watch/canvas.hpp"
#include "quern/watch/ticks.hpp"

namespace quern {

namespace {

constexpr std::array<std::string_view, 6> colours = {"36", "33", "35", "32", "34", "31"};
constexpr std::array<std::string_view, 6> dim_colours = {"2;36", "2;33", "2;35", "2;32", "2;34", "2;31"};
constexpr std::array<std::string_view, 8> shapes = {"◆", "●", "■", "▲", "▼", "○", "◇", "□"};
constexpr std::string_view small_letters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view big_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

enum Layer { faint_layer, level_layer, line_layer, letter_layer, mark_layer };

template <std::size_t N>
std::string_view pick(const std::array<std::string_view, N>& list, int series) {
  return list[static_cast<std::size_t>(series) % N];
}

std::string_view letter(std::string_view letters, int series) {
  return letters.substr(static_cast<std::size_t>(series) % letters.size(), 1);
}

// Beyond this a range could overflow.
bool drawable(const Point& point) { return std::abs(point.x) < 1e300 && std::abs(point.y) < 1e300; }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool holds(double value) const { return value >= low && value <= high; }
  /// Where `value` lies on dots 0 … count - 1.
  int place(double value, int count) const {
    return static_cast<int>(std::lround((value - low) / (high - low) * (count - 1)));
  }
  /// The character, of `count` with `dots` dots each, in which it lies.
  int cell(double value, int count, int dots) const { return place(value, count * dots) / dots; }
  /// Gives a constant some room on both sides, so that it has a scale.
  void widen() {
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low > std::max(1e-9 * size, 1e-290)) return;
    const double room = size > 1e-280 ? size / 20 : 0.5;
    low -= room;
    high += room;
  }
};

struct Frame {
  Range x, y;
  std::size_t beyond = 0;  // faint points outside y
  bool empty = true;
};

Frame frame_of(const Figure& figure) {
  Frame frame;
  for (const Curve& curve : figure.curves) {
    std::vector<double> faint;
    for (const Point& point : curve.points) {
      if (!drawable(point)) continue;
      frame.empty = false;
      frame.x.include(point.x);
      if (curve.stroke == Stroke::faint) {
        faint.push_back(point.y);
      } else {
        frame.y.include(point.y);
      }
    }
    if (faint.empty()) continue;
    std::sort(faint.begin(), faint.end());
    const std::size_t outer = faint.size() / 100;
    frame.y.include(faint[outer]);
    frame.y.include(faint[faint.size() - 1 - outer]);
  }
  if (frame.empty) return frame;
  if (figure.level) frame.y.include(*figure.level);
  const Range bulk = frame.y;
  const double reach = (bulk.high - bulk.low) / 4;
  if (frame.x.low > 0 && (frame.x.low <= frame.x.high / 10 || frame.x.low == frame.x.high)) frame.x.low = 0;
  for (const Curve& curve : figure.curves) {
    for (const Point& point : curve.points) {
      if (curve.stroke != Stroke::faint || !drawable(point)) continue;
      if (point.y >= bulk.low - reach && point.y <= bulk.high + reach) {
        frame.y.include(point.y);
      } else {
        ++frame.beyond;
      }
    }
  }
  frame.x.widen();
  frame.y.widen();
  return frame;
}

/// Draws the curves of a figure on a canvas.
class Painter {
 public:
  Painter(const Figure& figure, const Frame& frame, bool utf8, Canvas& canvas, int columns)
      : figure_(figure), frame_(frame), utf8_(utf8), canvas_(canvas), columns_(columns) {}

  void paint() {
    if (figure_.level) {
      const int row = dot_y(*figure_.level) / canvas_.dots_down();
      for (int column = 0; column < columns_; ++column) {
        canvas_.put(column, row, utf8_ ? "╌" : "-", {level_layer, "2", '-'});
      }
    }
    for (const Curve& curve : figure_.curves) {
      if (curve.stroke == Stroke::line) {
        paint_line(curve);
      } else {
        paint_points(curve);
      }
    }
  }

 private:
  int dot_x(double x) const { return frame_.x.place(x, canvas_.dot_columns()); }
  int dot_y(double y) const { return canvas_.dot_rows() - 1 - frame_.y.place(y, canvas_.dot_rows()); }

  void paint_points(const Curve& curve) {
    const bool faint = curve.stroke == Stroke::faint;
    const std::string_view glyph = faint             ? (utf8_ ? "·" : ".")
                                   : utf8_           ? pick(shapes, curve.series)
                                   : figure_.letters ? letter(big_letters, curve.series)
                                                     : "o";
    const Ink ink{faint ? faint_layer : mark_layer, pick(faint ? dim_colours : colours, curve.series)};
    for (const Point& point : curve.points) {
      if (!drawable(point) || !frame_.y.holds(point.y)) continue;
      canvas_.put(dot_x(point.x) / canvas_.dots_across(), dot_y(point.y) / canvas_.dots_down(), glyph, ink);
    }
  }

  void paint_line(const Curve& curve) {
    const std::string_view name = letter(small_letters, curve.series);
    const Ink ink{line_layer, pick(colours, curve.series), figure_.letters ? name[0] : '*'};
    std::vector<int> row_at(static_cast<std::size_t>(columns_), -1);  // of the line, by column of characters
    const auto joins = [&](std::size_t i) { return i < curve.points.size() && drawable(curve.points[i]); };
    int last_x = 0, last_y = 0;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      if (!joins(i)) continue;
      const int x = dot_x(curve.points[i].x), y = dot_y(curve.points[i].y);
      const int column = x / canvas_.dots_across(), row = y / canvas_.dots_down();
      const bool from_last = i > 0 && joins(i - 1);
      canvas_.line(from_last ? last_x : x, from_last ? last_y : y, x, y, ink);
      // One braille dot alone would hardly be seen.
      if (utf8_ && !from_last && !joins(i + 1)) canvas_.put(column, row, "•", ink);
      row_at[static_cast<std::size_t>(column)] = row;
      last_x = x;
      last_y = y;
    }
    if (figure_.letters && utf8_) paint_letters(name, curve.series, row_at);
  }

  // A letter at the line's end and about every quarter, each series at places of its own.
  void paint_letters(std::string_view name, int series, const std::vector<int>& row_at) {
    const Ink ink{letter_layer, pick(colours, series)};
    const int spacing = std::max(8, columns_ / 4);
    int last = -1;
    for (int column = 0; column < columns_; ++column) {
      const int row = row_at[static_cast<std::size_t>(column)];
      if (row < 0) continue;
      last = column;
      if (column % spacing == (spacing / 2 + 4 * series) % spacing) canvas_.put(column, row, name, ink);
    }
    if (last >= 0) canvas_.put(last, row_at[static_cast<std::size_t>(last)], name, ink);
  }

  const Figure& figure_;
  const Frame& frame_;
  bool utf8_;
  Canvas& canvas_;
  int columns_;
};

/// The key of one entry and its label, as text and as shown.
struct Entry {
  std::string key, label;
  std::string_view sgr;
  bool first = false;  // of a named series: begins a line
};

std::vector<Entry> entries_of(const Figure& figure, const Frame& frame, bool utf8) {
  std::vector<Entry> entries;
  for (const Curve& curve : figure.curves) {
    const std::string small(letter(small_letters, curve.series));
    Entry entry{{}, curve.label, pick(colours, curve.series), false};
    switch (curve.stroke) {
      case Stroke::faint:
        entry.key = utf8 ? "··" : "..";
        entry.sgr = pick(dim_colours, curve.series);
        if (frame.beyond > 0) entry.label += " (" + std::to_string(frame.beyond) + " beyond the picture)";
        break;
      case Stroke::line:
        entry.first = figure.letters;
        entry.key = utf8             ? (figure.letters ? "⠤" + small + "⠤" : "⠤⠤")
                    : figure.letters ? small + small
                                     : "**";
        break;
      case Stroke::marks:
        entry.key = utf8             ? std::string(pick(shapes, curve.series))
                    : figure.letters ? std::string(letter(big_letters, curve.series))
                                     : "o";
        break;
    }
    entries.push_back(std::move(entry));
  }
  if (figure.level) entries.push_back({utf8 ? "╌╌" : "--", figure.level_label, "2", figure.letters});
  return entries;
}

std::string legend(const std::vector<Entry>& entries, const PlotOptions& options) {
  std::string out;
  int used = 0;
  for (const Entry& entry : entries) {
    const int key = display_width(entry.key);
    const std::string label =
        fit(harmless(entry.label, !options.utf8), options.width - key - 2, !options.utf8);
    const int size = key + 1 + display_width(label);
    if (used > 0 && (entry.first || used + 3 + size > options.width)) {
      out += "\n";
      used = 0;
    }
    out += used > 0 ? "   " : " ";
    out += coloured(entry.key, entry.sgr, options.colour) + " " + label;
    used += (used > 0 ? 3 : 1) + size;
  }
  return out.empty() ? out : out + "\n";
}

/// The two lines under the plot: the axis with its ticks, and their labels, each centred below its tick where
/// it has room.
std::string x_axis(const Figure& figure, const Range& x, int margin, int columns,
                   const PlotOptions& options) {
  const Ticks ticks = nice_ticks(x.low, x.high, std::max(2, columns / 10), figure.whole_x);
  std::vector<bool> tick_at(static_cast<std::size_t>(columns));
  std::string labels(static_cast<std::size_t>(options.width), ' ');
  int free = 0;
  for (const double value : ticks.values) {
    const int column = std::clamp(x.cell(value, columns, options.utf8 ? 2 : 1), 0, columns - 1);
    tick_at[static_cast<std::size_t>(column)] = true;
    const std::string label = tick_label(value, ticks);
    const int size = static_cast<int>(label.size());
    const int begin = std::min(margin + column - size / 2, options.width - size);
    if (begin < free) continue;
    labels.replace(static_cast<std::size_t>(begin), label.size(), label);
    free = begin + size + 1;
  }
  std::string axis(static_cast<std::size_t>(margin - 1), ' ');
  axis += options.utf8 ? "└" : "+";
  for (const bool tick : tick_at) axis += tick ? (options.utf8 ? "┬" : "+") : (options.utf8 ? "─" : "-");
  labels.erase(labels.find_last_not_of(' ') + 1);
  const int start = margin + std::max(0, (columns - display_width(figure.x_label)) / 2);
  return axis + "\n" + labels + "\n" + std::string(static_cast<std::size_t>(start), ' ') + figure.x_label +
         "\n";
}

}  // namespace

PlotOptions plot_options(const Terminal& terminal) {
  PlotOptions options;
  options.width = std::clamp(terminal.width, 40, 200);
  options.utf8 = terminal.utf8;
  options.colour = terminal.colour;
  return options;
}

std::string draw(const Figure& figure, const PlotOptions& options) {
  QUERN_CHECK(options.width >= 20 && options.height >= 4, options.width, options.height);
  const std::string title = fit(harmless(figure.title, !options.utf8), options.width - 1, !options.utf8);
  const std::string heading = " " + coloured(title, "1", options.colour) + "\n";
  const Frame frame = frame_of(figure);
  if (frame.empty) return heading + " no finite value to draw yet\n";

  const Ticks ticks = nice_ticks(frame.y.low, frame.y.high, std::max(2, options.height / 3));
  std::vector<std::string> labels(static_cast<std::size_t>(options.height));
  std::size_t widest = 0;
  for (const double value : ticks.values) {
    const int above = frame.y.cell(value, options.height, options.utf8 ? 4 : 1);
    const int row = std::clamp(options.height - 1 - above, 0, options.height - 1);
    std::string& label = labels[static_cast<std::size_t>(row)];
    label = tick_label(value, ticks);
    widest = std::max(widest, label.size());
  }
  const int margin = static_cast<int>(widest) + 3;  // a blank, the label, a blank, the axis
  const int columns = options.width - margin;
  Canvas canvas(columns, options.height, options.utf8);
  Painter(figure, frame, options.utf8, canvas, columns).paint();

  std::string out = heading;
  for (int row = 0; row < options.height; ++row) {
    const std::string& label = labels[static_cast<std::size_t>(row)];
    out += std::string(1 + widest - label.size(), ' ') + label + " ";
    out += label.empty() ? (options.utf8 ? "│" : "|") : (options.utf8 ? "┤" : "+");
    out += canvas.row(row, options.colour) + "\n";
  }
  out += x_axis(figure, frame.x, margin, columns, options);
  return out + legend(entries_of(figure, frame, options.utf8), options);
}

}  // namespace quern
