#include "quern/watch/table.hpp"

#include <algorithm>
#include <sstream>

#include "catch.hpp"
#include "quern/watch/terminal.hpp"

using namespace quern;

namespace {

Table example() {
  return {{{"name", false}, {"loss", true}, {"state", false}},
          {{"a-very-long-name-of-a-run", "0.25", "done"}, {"short", "10.5", ""}}};
}

int widest(const std::string& text) {
  std::istringstream lines(text);
  int width = 0;
  for (std::string line; std::getline(lines, line);) width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("a table: numbers to the right, no blanks at the ends of lines") {
  CHECK(draw(example(), 0) ==
        "name                       loss  state\n"
        "a-very-long-name-of-a-run  0.25  done\n"
        "short                      10.5\n");
  CHECK(draw(example(), 80) == draw(example(), 0));
}

TEST_CASE("a table that is too wide has its names cut in the middle") {
  const std::string cut = draw(example(), 36);
  CHECK(cut ==
        "name                     loss  state\n"
        "a-very-long…me-of-a-run  0.25  done\n"
        "short                    10.5\n");
  CHECK(widest(cut) == 36);
  // Below 20 columns for the names the gaps give way, and below 12 the width does.
  CHECK(draw(example(), 30) ==
        "name                loss state\n"
        "a-very-lo…-of-a-run 0.25 done\n"
        "short               10.5\n");
  CHECK(widest(draw(example(), 10)) == 12 + 1 + 4 + 1 + 5);
}

TEST_CASE("what comes from files cannot break a table") {
  const Table table{{{"name", false}, {"n", true}},
                    {{"a\nb\tc\x1b[31m", "1"}, {"日本", "22"}, {"\xff", "3"}}};
  CHECK(draw(table, 0) ==
        "name         n\n"
        "a b c\uFFFD[31m   1\n"
        "日本        22\n"
        "\uFFFD            3\n");
  CHECK(draw(table, 0, true) ==
        "name         n\n"
        "a b c?[31m   1\n"
        "??          22\n"
        "?            3\n");
}

TEST_CASE("a table without headers has none") {
  CHECK(draw({{{"", false}, {"", false}}, {{"  steps", "20"}, {"  tokens", "300"}}}, 0) ==
        "  steps   20\n"
        "  tokens  300\n");
}
