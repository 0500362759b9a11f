#include "quern/watch/canvas.hpp"

#include "catch.hpp"

using namespace quern;

TEST_CASE("the eight dots of a braille character, in Unicode's numbering") {
  const char* expected[4][2] = {{"⠁", "⠈"}, {"⠂", "⠐"}, {"⠄", "⠠"}, {"⡀", "⢀"}};
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 2; ++x) {
      Canvas canvas(1, 1, true);
      canvas.dot(x, y, {});
      CHECK(canvas.row(0, false) == expected[y][x]);
    }
  }
  Canvas canvas(1, 1, true);
  for (int i = 0; i < 8; ++i) canvas.dot(i % 2, i / 2, {});
  CHECK(canvas.row(0, false) == "⣿");
}

TEST_CASE("lines hold both ends in every direction") {
  Canvas flat(3, 1, true);
  flat.line(5, 0, 0, 0, {});
  CHECK(flat.row(0, false) == "⠉⠉⠉");
  Canvas steep(1, 2, true);
  steep.line(0, 7, 0, 0, {});
  CHECK(steep.row(0, false) + steep.row(1, false) == "⡇⡇");
  Canvas diagonal(2, 1, true);
  diagonal.line(0, 3, 3, 0, {});
  CHECK(diagonal.row(0, false) == "⡠⠊");
  Canvas ascii(4, 2, false);
  ascii.line(0, 0, 3, 1, {0, "", 'x'});
  CHECK(ascii.row(0, false) == "xx");
  CHECK(ascii.row(1, false) == "  xx");
  Canvas single(1, 1, true);
  single.line(1, 1, 1, 1, {});
  CHECK(single.row(0, false) == "⠐");
}

TEST_CASE("a higher layer hides a lower one, whichever comes first; equal layers share their dots") {
  for (const bool low_first : {true, false}) {
    Canvas canvas(2, 1, true);
    if (low_first) canvas.put(0, 0, "·", {0, ""});
    canvas.dot(0, 0, {1, ""});
    canvas.dot(1, 3, {1, ""});
    if (!low_first) canvas.put(0, 0, "·", {0, ""});
    CHECK(canvas.row(0, false) == "⢁");
  }
}

TEST_CASE("a dot leaves a character of a higher layer alone") {
  for (const bool utf8 : {true, false}) {
    Canvas canvas(1, 1, utf8);
    canvas.put(0, 0, "X", {1, ""});
    canvas.dot(0, 0, {0, ""});
    CHECK(canvas.row(0, false) == "X");
  }
}

TEST_CASE("colour wraps runs of equal colour and changes no character") {
  Canvas canvas(5, 1, false);
  canvas.put(0, 0, "a", {0, "36"});
  canvas.put(1, 0, "b", {0, "36"});
  canvas.put(3, 0, "c", {0, "33"});
  CHECK(canvas.row(0, false) == "ab c");
  CHECK(canvas.row(0, true) == "\x1b[36mab\x1b[0m \x1b[33mc\x1b[0m");
}
