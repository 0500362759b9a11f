#include "quern/text/utf8.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;
using Status = Utf8Char::Status;

namespace {

std::string replaced(const std::string& bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  return out + stream.finish();
}

}  // namespace

TEST_CASE("characters of one to four bytes, at the ends of their ranges", "[text]") {
  struct Case {
    std::string bytes;
    char32_t code_point;
  };
  const std::vector<Case> cases = {
      {std::string(1, '\0'), 0},     {"\x7F", 0x7F},           {"\xC2\x80", 0x80},
      {"\xDF\xBF", 0x7FF},           {"\xE0\xA0\x80", 0x800},  {"\xED\x9F\xBF", 0xD7FF},
      {"\xEE\x80\x80", 0xE000},      {"\xEF\xBF\xBF", 0xFFFF}, {"\xF0\x90\x80\x80", 0x10000},
      {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
  for (const Case& c : cases) {
    const Utf8Char read = read_utf8(c.bytes + "x");
    CHECK(read.status == Status::ok);
    CHECK(read.code_point == c.code_point);
    CHECK(read.length == c.bytes.size());
    std::string written;
    append_utf8(written, c.code_point);
    CHECK(written == c.bytes);
    CHECK(replaced(c.bytes) == c.bytes);
    for (std::size_t n = 1; n < c.bytes.size(); ++n) {
      CHECK(read_utf8(c.bytes.substr(0, n)).status == Status::truncated);
      CHECK(read_utf8(c.bytes.substr(0, n)).length == n);
      CHECK(read_utf8(c.bytes.substr(0, n) + "x").status == Status::invalid);
    }
  }
}

TEST_CASE("every code point but surrogates is written and read back", "[text]") {
  bool same = true;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string bytes;
    append_utf8(bytes, c);
    const Utf8Char read = read_utf8(bytes);
    same = same && read.status == Status::ok && read.code_point == c && read.length == bytes.size();
  }
  CHECK(same);
  std::string out;
  CHECK_THROWS_AS(append_utf8(out, 0xD800), Bug);
  CHECK_THROWS_AS(append_utf8(out, 0xDFFF), Bug);
  CHECK_THROWS_AS(append_utf8(out, 0x110000), Bug);
}

TEST_CASE("bytes that are no UTF-8, by maximal subparts", "[text]") {
  struct Case {
    std::string bytes;
    std::string with_replacements;
  };
  const std::string r = "\xEF\xBF\xBD";  // U+FFFD
  const std::vector<Case> cases = {
      {"\x80", r},                          // a continuation alone
      {"\xC0\xAF", r + r},                  // overlong "/" in two bytes
      {"\xC1\xBF", r + r},                  // overlong U+007F
      {"\xE0\x80\xAF", r + r + r},          // overlong "/" in three
      {"\xE0\x9F\xBF", r + r + r},          // overlong U+07FF
      {"\xF0\x80\x80\xAF", r + r + r + r},  // overlong "/" in four
      {"\xF0\x8F\xBF\xBF", r + r + r + r},  // overlong U+FFFF
      {"\xED\xA0\x80", r + r + r},          // surrogate U+D800
      {"\xED\xBF\xBF", r + r + r},          // surrogate U+DFFF
      {"\xF4\x90\x80\x80", r + r + r + r},  // U+110000
      {"\xF5\x80\x80\x80", r + r + r + r},  // no lead byte any more
      {"\xFE", r},
      {"\xFF", r},
      {"a\xE2\x82"
       "b",
       "a" + r + "b"},  // cut short inside
      {"a\xF0\x9F\x98"
       "b",
       "a" + r + "b"},      // one subpart of three bytes
      {"\xF0\x9F\x98", r},  // cut short at the end
      {"\xE2\x82\xE2\x82\xAC", r + "\xE2\x82\xAC"},
      // The Unicode Standard, table 3-8.
      {"a\xF1\x80\x80\xE1\x80\xC2"
       "b\x80"
       "c\x80\xBF"
       "d",
       "a" + r + r + r + "b" + r + "c" + r + r + "d"},
  };
  for (const Case& c : cases) CHECK(replaced(c.bytes) == c.with_replacements);
}

TEST_CASE("a set of code points is sorted, and holds each once", "[text]") {
  CodePointSet set;
  CHECK(set.size() == 0);
  const std::vector<char32_t> sorted = {0, 1, 63, 64, 65, 127, 0xE9, 0xFFFD, 0x10FFFF};
  for (int twice = 0; twice < 2; ++twice)
    for (auto c = sorted.rbegin(); c != sorted.rend(); ++c) set.insert(*c);
  CHECK(set.size() == sorted.size());
  CHECK(set.sorted() == sorted);
}

TEST_CASE("a stream yields whole characters, however it is cut", "[text]") {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      Utf8Stream stream;
      std::string out;
      for (const auto& piece :
           {text.substr(0, first), text.substr(first, second - first), text.substr(second)}) {
        const std::string whole = stream.push(piece);
        CHECK(replaced(whole) == whole);
        out += whole;
      }
      CHECK(stream.finish().empty());
      CHECK(out == text);
    }
  }
  Utf8Stream stream;
  CHECK(stream.push("\xF0\x9F").empty());
  CHECK(stream.push("\x98").empty());
  CHECK(stream.push("\x80!") == "\xF0\x9F\x98\x80!");
  CHECK(stream.push("\xF0\x9F").empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD");
  CHECK(stream.finish().empty());
}

TEST_CASE("a position counts lines and bytes from 1", "[text]") {
  const std::string text =
      "ab\nc\xC3\xA9"
      "d\n\nx";
  CHECK(position_of(text, 0) == TextPosition{1, 1});
  CHECK(position_of(text, 2) == TextPosition{1, 3});
  CHECK(position_of(text, 3) == TextPosition{2, 1});
  CHECK(position_of(text, 6) == TextPosition{2, 4});
  CHECK(position_of(text, 8) == TextPosition{3, 1});
  CHECK(position_of(text, 9) == TextPosition{4, 1});
}

TEST_CASE("a character in a message", "[text]") {
  CHECK(describe_character('a') == "'a' (U+0061)");
  CHECK(describe_character(0xE9) == "'\xC3\xA9' (U+00E9)");
  CHECK(describe_character(0x1F600) == "'\xF0\x9F\x98\x80' (U+1F600)");
  CHECK(describe_character('\n') == "U+000A");
  CHECK(describe_character(0x1B) == "U+001B");
  CHECK(describe_character(0x9B) == "U+009B");    // the C1 form of ESC [
  CHECK(describe_character(0x202E) == "U+202E");  // right-to-left override
  CHECK(describe_character(0xFEFF) == "U+FEFF");
}
