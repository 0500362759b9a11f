#include "quern/watch/canvas.hpp"

#include <cstdlib>

#include "quern/base/check.hpp"

namespace quern {

namespace {

constexpr std::string_view ascii_characters =
    " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";

// Braille numbers its dots down the left column, then down the right one, and then the lowest row.
constexpr std::uint8_t braille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

std::string braille_character(std::uint8_t dots) {
  return {'\xE2', static_cast<char>(0xA0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3F))};
}

}  // namespace

Canvas::Canvas(int columns, int rows, bool utf8)
    : columns_(columns), rows_(rows), utf8_(utf8), cells_(static_cast<std::size_t>(columns * rows)) {}

Canvas::Cell& Canvas::at(int column, int row) {
  QUERN_CHECK(column >= 0 && column < columns_ && row >= 0 && row < rows_, column, row, columns_, rows_);
  return cells_[static_cast<std::size_t>(row * columns_ + column)];
}

void Canvas::dot(int x, int y, const Ink& ink) {
  if (!utf8_) return put(x, y, ascii_characters.substr(static_cast<std::size_t>(ink.ascii - ' '), 1), ink);
  Cell& cell = at(x / 2, y / 4);
  if (cell.layer > ink.layer) return;
  const std::uint8_t before = cell.layer == ink.layer ? cell.dots : std::uint8_t{0};
  cell = {ink.layer, static_cast<std::uint8_t>(before | braille[y % 4][x % 2]), {}, ink.sgr};
}

void Canvas::line(int x0, int y0, int x1, int y1, const Ink& ink) {
  const int dx = std::abs(x1 - x0), dy = -std::abs(y1 - y0);
  const int step_x = x0 < x1 ? 1 : -1, step_y = y0 < y1 ? 1 : -1;
  for (int error = dx + dy;;) {
    dot(x0, y0, ink);
    if (x0 == x1 && y0 == y1) return;
    const int twice = 2 * error;
    if (twice >= dy) {
      error += dy;
      x0 += step_x;
    }
    if (twice <= dx) {
      error += dx;
      y0 += step_y;
    }
  }
}

void Canvas::put(int column, int row, std::string_view glyph, const Ink& ink) {
  Cell& cell = at(column, row);
  if (cell.layer <= ink.layer) cell = {ink.layer, 0, glyph, ink.sgr};
}

std::string Canvas::row(int row, bool colour) const {
  const Cell* cells = &cells_[static_cast<std::size_t>(row * columns_)];
  int end = columns_;
  while (end > 0 && cells[end - 1].layer < 0) --end;
  std::string out;
  for (int i = 0; i < end;) {
    std::string run;
    int next = i;
    for (; next < end && cells[next].sgr == cells[i].sgr; ++next) {
      const Cell& cell = cells[next];
      run += cell.layer < 0 ? " " : cell.dots ? braille_character(cell.dots) : std::string(cell.glyph);
    }
    out += coloured(run, cells[i].sgr, colour);
    i = next;
  }
  return out;
}

std::string coloured(std::string_view text, std::string_view sgr, bool colour) {
  if (!colour || sgr.empty()) return std::string(text);
  return "\x1b[" + std::string(sgr) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace quern
