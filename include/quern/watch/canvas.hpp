// A grid of characters to draw on, in layers: braille dots or plain characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// What a stroke leaves in a character: its layer (a higher one hides a lower one), the SGR parameters of its
/// colour
/// ("36"; empty: the terminal's own) and the character that stands for a dot where there is no braille.
struct Ink {
  int layer = 0;
  std::string_view sgr;
  char ascii = '*';
};

class Canvas {
 public:
  Canvas(int columns, int rows, bool utf8);

  /// The grid of dots: 2 by 4 a character in braille, 1 by 1 in ASCII. Dot (0, 0) is the upper left one.
  int dot_columns() const { return columns_ * dots_across(); }
  int dot_rows() const { return rows_ * dots_down(); }
  /// Dots of one character.
  int dots_across() const { return utf8_ ? 2 : 1; }
  int dots_down() const { return utf8_ ? 4 : 1; }

  /// Sets one dot.
  void dot(int x, int y, const Ink& ink);
  /// Sets the dots of the straight line between two dots, both included (Bresenham 1965).
  void line(int x0, int y0, int x1, int y1, const Ink& ink);
  /// Puts a character of one column into the character cell (column, row).
  void put(int column, int row, std::string_view glyph, const Ink& ink);

  /// One row of characters without blanks at its end; with `colour`, SGR sequences around what has a colour.
  std::string row(int row, bool colour) const;

 private:
  struct Cell {
    int layer = -1;
    std::uint8_t dots = 0;   // bits of U+2800
    std::string_view glyph;  // instead of dots
    std::string_view sgr;
  };
  Cell& at(int column, int row);

  int columns_, rows_;
  bool utf8_;
  std::vector<Cell> cells_;
};

/// `text` between the SGR sequence that turns `sgr` on and the one that ends it; `text` itself without
/// colour.
std::string coloured(std::string_view text, std::string_view sgr, bool colour);

}  // namespace quern
