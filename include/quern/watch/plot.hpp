// Line plots as text: braille dots (two columns by four rows a character) where the terminal speaks UTF-8,
// pure ASCII elsewhere. The same figure has the same characters with and without colour; colour only adds SGR
// sequences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/watch/series.hpp"
#include "quern/watch/terminal.hpp"

namespace quern {

struct PlotOptions {
  int width = 80;       // columns of the whole picture, at least 20
  int height = 16;      // rows between title and x axis, at least 4
  bool utf8 = false;    // braille and other characters beyond ASCII
  bool colour = false;  // SGR sequences
};

/// Options that suit a terminal: its width between 40 and 200 columns, its character set and colour.
PlotOptions plot_options(const Terminal& terminal);

/// How a curve is drawn, from the lowest layer to the highest.
enum class Stroke {
  faint,  // a dim dot wherever there are points: raw values
  line,   // points joined in order; a gap where a y is not finite
  marks,  // a mark for each point: few, important values
};

struct Curve {
  std::string label;
  Stroke stroke = Stroke::line;
  std::vector<Point> points;
  int series = 0;  // curves of one series share colour, mark and letter
};

struct Figure {
  std::string title;
  std::string x_label;
  std::vector<Curve> curves;
  bool letters = false;  // name each series by a letter: 'a' for the first, along its line and in the legend
  std::optional<double> level;  // a horizontal line
  std::string level_label;
  bool whole_x = false;  // x counts things: its ticks are whole numbers
};

/// The picture: title, plot with axes, legend; every line ends in a newline and is at most `width` columns
/// wide. The range of y holds every finite point of lines and marks and the level; of faint points it holds
/// those within a quarter of the height of all but the outermost hundredth, and the legend says how many are
/// beyond. Points that are not finite are left out; with no finite point at all the picture says so.
std::string draw(const Figure& figure, const PlotOptions& options);

}  // namespace quern
