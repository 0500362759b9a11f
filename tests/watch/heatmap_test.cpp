#include "quern/watch/heatmap.hpp"

#include "catch.hpp"
#include "quern/base/check.hpp"

namespace quern {
namespace {

Terminal terminal(bool utf8, bool tty = false, int width = 80) {
  Terminal to;
  to.utf8 = utf8;
  to.tty = tty;
  to.width = width;
  return to;
}

const std::vector<std::string> labels = {"a", "to", "c"};
const std::vector<float> weights = {1, 0, 0, 0.25F, 0.75F, 0, 0.5F, 0.125F, 0.375F};

TEST_CASE("a heatmap shades each weight by the largest of its row") {
  CHECK(heatmap(weights, {labels, labels}, terminal(false)) ==
        "   a~c  max\n"
        " a #    1.000\n"
        "to :#   0.750\n"
        " c #.*  0.500\n");
  CHECK(heatmap(weights, {labels, labels}, terminal(true)) ==
        "   a…c  max\n"
        " a █    1.000\n"
        "to ▒█   0.750\n"
        " c █░▓  0.500\n");
}

TEST_CASE("a row that sees nothing is blank") {
  CHECK(heatmap(std::vector<float>{0}, {{"x"}, {"x"}}, terminal(false)) == "  x  max\nx    0.000\n");
}

TEST_CASE("a narrow terminal shows the last rows and columns") {
  const Terminal narrow = terminal(false, true, 2 + 1 + 7 + 2);
  CHECK(heatmap_size({labels, labels}, narrow) == 2);
  CHECK(heatmap(weights, {labels, labels}, narrow) ==
        "   ~c  max\n"
        "to #   0.750\n"
        " c .*  0.500\n");
  CHECK(heatmap_size({labels, labels}, terminal(false, true, 1)) == 1);
  CHECK(heatmap(weights, {labels, {"1", "2", "3"}}, narrow) ==
        "   23  max\n"
        " a     1.000\n"
        "to #   0.750\n"
        " c .*  0.500\n");
}

TEST_CASE("rows and columns may differ in number, and there is a weight for each pair") {
  CHECK(heatmap(std::vector<float>{1, 0, 0.5F, 0.25F, 0, 1}, {labels, {"1", "2"}}, terminal(false)) ==
        "   12  max\n"
        " a #   1.000\n"
        "to #:  0.500\n"
        " c  #  1.000\n");
  for (const std::size_t n : {0, 6, 8, 10})
    CHECK_THROWS_AS(heatmap(std::vector<float>(n), {labels, labels}, terminal(false)), Bug);
  CHECK_THROWS_AS(heatmap({}, {labels, {}}, terminal(false)), Bug);
}

TEST_CASE("a token's label shows blanks and obeys nothing") {
  CHECK(token_label(" a\n", false) == "␣a\\n");
  CHECK(token_label(" \t", true) == "_\\t");
  CHECK(token_label("\x1b[2J", true) == "?[2J");
  CHECK(token_label("a very long token", true) == "a_very_long~");
}

}  // namespace
}  // namespace quern
