#include "quern/watch/plot.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "catch.hpp"

using namespace quern;

namespace {

/// Train, raw and validation curves of a made-up run, with a floor.
Figure falling() {
  Curve raw{"each step", Stroke::faint, {}, 0}, train{"train", Stroke::line, {}, 0};
  for (int i = 0; i <= 100; ++i) {
    const double y = 1 + 3 * std::exp(-i / 25.0);
    train.points.push_back({static_cast<double>(i), y});
    raw.points.push_back({static_cast<double>(i), y + 0.06 * ((i * 7) % 11 - 5)});
  }
  const Curve val{"val", Stroke::marks, {{0, 4}, {50, 2}, {100, 1.5}}, 1};
  return {"loss", "step", {raw, train, val}, false, 1.0, "floor"};
}

/// Two series that cross.
Figure crossing() {
  return {"two",
          "step",
          {{"one", Stroke::line, {{0, 0}, {10, 10}}, 0},
           {"val", Stroke::marks, {{5, 1}}, 0},
           {"other", Stroke::line, {{0, 10}, {10, 0}}, 1}},
          true,
          std::nullopt,
          ""};
}

/// A line with a gap at a value that is not finite, a lone point and an infinite end.
Figure gaps() {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<Point> points = {{0, 1}, {2, 1}, {3, nan}, {4, 3}, {5, -inf}, {6, 5}, {8, 5}, {9, inf}};
  return {"gaps", "step", {{"x", Stroke::line, points, 0}}, false, std::nullopt, ""};
}

Figure line_of(std::vector<Point> points) {
  return {"t", "step", {{"x", Stroke::line, std::move(points), 0}}, false, std::nullopt, ""};
}

/// The picture behind a newline, so that a raw string can begin on a line of its own.
std::string picture(const Figure& figure, int width, int height, bool utf8) {
  return "\n" + draw(figure, {width, height, utf8, false});
}

/// `text` without what begins with ESC and ends in 'm'.
std::string without_sequences(std::string_view text) {
  std::string out;
  for (bool inside = false; const char c : text) {
    inside = inside || c == '\x1b';
    if (!inside) out += c;
    inside = inside && c != 'm';
  }
  return out;
}

std::vector<std::string> lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("a falling curve in braille") {
  CHECK(picture(falling(), 40, 8, true) == R"(
 loss
 4 ┤●⡀
   │ ⠈⢆·
   │   ⠓⢄·
   │    ⠈⠱⢄· ·
 2 ┤      ·⠉⠢⣄⡀· ·    ●
   │        ··⠈⠑⠢⠤⣀⡀· · ·
   │           · ··⠈⠉⠑⠒⠢⠤⠤⠤⣀⣀⣀⣀⣀⡀······●
   │╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌⠈⠉⠉⠉⠉⠉⠉⠉
   └┬─────────────────┬────────────────┬
    0                50              100
                    step
 ·· each step   ⠤⠤ train   ● val
 ╌╌ floor
)");
}

TEST_CASE("a falling curve in ASCII") {
  CHECK(picture(falling(), 40, 8, false) == R"(
 loss
 4 +o.
   |.**
   |  ***.
   |    .*** .
 2 +       ****. .    o
   |         . ******.....  .          o
   |-----------------*******************
   |                       .  .. .......
   ++-----------------+----------------+
    0                50              100
                    step
 .. each step   ** train   o val
 -- floor
)");
}

TEST_CASE("several series carry letters") {
  CHECK(picture(crossing(), 40, 6, true) == R"(
 two
 10 ┤b⠒⠢⠤⣀⡀                       ⢀⣀⠤⠔⠒a
    │     ⠈⠉⠒⠢⠤⣀⡀           ⢀⣀⠤⠔⠒⠉⠁
    │           ⠈⠉⠒⠢⠤⣀⣀⣀⠤⠔⠒⠉⠁
    │           ⢀⣀⠤⠔⠒⠉⠉⠉⠒⠢⠤⣀⡀
    │     ⢀⣀⠤⠔⠒⠉⠁           ⠈⠉⠒⠢⠤⣀⡀
  0 ┤⣀⠤⠔⠒⠉⠁           ◆           ⠈⠉⠒⠢⠤b
    └┬────────────────┬────────────────┬
     0                5               10
                    step
 ⠤a⠤ one   ◆ val
 ⠤b⠤ other
)");
  CHECK(picture(crossing(), 40, 6, false) == R"(
 two
 10 +bbbb                           aaaa
    |    bbbbbbb             aaaaaaa
    |           bbbbbbaaaaaaa
    |           aaaaaabbbbbbb
    |    aaaaaaa      A      bbbbbbb
  0 +aaaa                           bbbb
    ++----------------+----------------+
     0                5               10
                    step
 aa one   A val
 bb other
)");
}

TEST_CASE("values that are not finite make gaps, a lone point can be seen") {
  CHECK(picture(gaps(), 30, 5, true) == R"(
 gaps
   │                   ⠉⠉⠉⠉⠉⠉⠉
 4 ┤
   │             •
 2 ┤
   │⣀⣀⣀⣀⣀⣀⣀
   └┬───────────────┬─────────
    0               5
               step
 ⠤⠤ x
)");
}

TEST_CASE("colour adds sequences and changes no character; ASCII is ASCII") {
  for (const Figure& figure : {falling(), crossing(), gaps()}) {
    for (const bool utf8 : {true, false}) {
      const std::string plain = draw(figure, {64, 10, utf8, false});
      const std::string coloured = draw(figure, {64, 10, utf8, true});
      CHECK(coloured != plain);
      CHECK(without_sequences(coloured) == plain);
      CHECK(plain.find('\x1b') == std::string::npos);
      if (!utf8)
        CHECK(std::all_of(plain.begin(), plain.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    }
  }
}

TEST_CASE("no line is wider than the picture, none ends in a blank, at every width") {
  Figure figure = falling();
  figure.title = "a title that is far too long for a narrow picture, über alles, and then some more of it";
  figure.curves[1].label = "a label that is also far too long for a narrow picture and is therefore cut off";
  for (int width = 20; width <= 200; ++width) {
    for (const bool utf8 : {true, false}) {
      for (const std::string& line : lines(draw(figure, {width, 5, utf8, false}))) {
        CAPTURE(width, line);
        CHECK(display_width(line) <= width);
        CHECK(!line.ends_with(' '));
      }
    }
  }
}

TEST_CASE("what has no extent still has a scale") {
  const double big = std::numeric_limits<double>::max();
  const std::vector<std::vector<Point>> cases = {
      {{3, 2.5}},
      {{0, 0}},
      {{1, 2}, {2, 2}, {3, 2}},
      {{0, 1}, {1, 1 + 1e-15}},
      {{0, 1e-320}, {1, 0}},
      {{-5, -7}},
      {{1, big}, {2, 2}},
      {{-1e299, -1e299}, {1e299, 1e299}},
  };
  for (const auto& points : cases) {
    const std::vector<std::string> rows = lines(draw(line_of(points), {40, 5, false, false}));
    REQUIRE(rows.size() == 10);  // title, 5 rows, axis, labels, name of x, legend
    std::string plot;
    for (int row = 1; row <= 5; ++row) plot += rows[static_cast<std::size_t>(row)];
    CHECK(plot.find('*') != std::string::npos);
    CHECK(plot.find('+') != std::string::npos);  // a tick
  }
}

TEST_CASE("a value lies in the row that bears its label") {
  for (int height = 12; height <= 40; ++height) {  // from 12 rows on the ticks are 1, 2, 3 and 4 or finer
    for (const double level : {1.0, 2.0, 3.0}) {
      Figure figure = line_of({{0, 0.83}, {1, 4.11}});
      figure.level = level;
      const std::string text = draw(figure, {40, height, true, false});
      for (const std::string& row : lines(text)) {
        if (row.find("╌╌╌") == std::string::npos) continue;
        const std::size_t tick = row.find("┤");
        CAPTURE(text);
        REQUIRE(tick != std::string::npos);
        CHECK(std::stod(row.substr(0, tick)) == level);
      }
    }
  }
}

TEST_CASE("nothing to draw is said") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(picture(line_of({}), 40, 5, true) == "\n t\n no finite value to draw yet\n");
  CHECK(picture(line_of({{1, nan}, {nan, 1}}), 40, 5, true) == "\n t\n no finite value to draw yet\n");
  CHECK(picture(Figure{}, 40, 5, true) == "\n \n no finite value to draw yet\n");
}

TEST_CASE("one spike among raw points does not flatten the picture, and is counted") {
  Figure figure = falling();
  figure.curves[0].points[40].y = 1000;
  const std::string text = draw(figure, {100, 8, false, false});
  CHECK(text.find("each step (1 beyond the picture)") != std::string::npos);
  CHECK(text.find("\n 4 +") != std::string::npos);
}

TEST_CASE("control characters in labels and titles do not reach the terminal") {
  Figure figure = crossing();
  figure.title = "a\x1b[2Jb";
  figure.curves[0].label = "c\rd";
  const std::string text = draw(figure, {40, 6, true, false});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("a terminal's width is kept between 40 and 200") {
  Terminal terminal;
  for (const auto& [width, expected] : {std::pair(10, 40), std::pair(80, 80), std::pair(500, 200)}) {
    terminal.width = width;
    CHECK(plot_options(terminal).width == expected);
  }
}
