#include "quern/text/utf8.hpp"

#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/base/rng.hpp"

using namespace quern;
using Status = Utf8Char::Status;

namespace {

std::string replaced(const std::string& bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  return out + stream.finish();
}

/// A string of up to 16 bytes of which many are leads, continuations and ends of ranges.
std::string random_string(std::uint64_t number) {
  const std::string_view likely = "a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF4\xF5\xFF";
  const RandomStream stream(number, 1, 0);
  std::string bytes(stream.at(0, 0)[0] % 17, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto draws = stream.at(i + 1, 0);
    bytes[i] = draws[0] % 4 == 0 ? static_cast<char>(draws[1]) : likely[draws[1] % likely.size()];
  }
  return bytes;
}

/// Where the first character begins that is none, by the definition's arithmetic; the end where all are.
std::size_t first_broken(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[at]);
    const int ones = std::countl_one(lead);
    const std::size_t length = ones == 0 ? 1 : static_cast<std::size_t>(ones);
    if (ones == 1 || ones > 4 || length > bytes.size() - at) return at;
    char32_t code_point = lead & 0xFFU >> (ones + (ones > 0));
    for (std::size_t i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(bytes[at + i]);
      if (std::countl_one(next) != 1) return at;
      code_point = code_point << 6 | (next & 0x3F);
    }
    const std::size_t needed = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    if (needed != length || code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) return at;
    at += length;
  }
  return bytes.size();
}

}  // namespace

TEST_CASE("a million random strings: broken where the definition says, mended to UTF-8, however cut",
          "[text]") {
  std::size_t whole = 0;
  for (std::uint64_t number = 0; number < 1'000'000; ++number) {
    const std::string bytes = random_string(number);
    std::size_t at = 0;
    while (at < bytes.size()) {
      const Utf8Char c = read_utf8(std::string_view(bytes).substr(at));
      if (c.status != Status::ok) break;
      at += c.length;
    }
    const std::string mended = replaced(bytes);
    Utf8Stream stream;
    const std::size_t cut = number % (bytes.size() + 1);
    std::string in_two = stream.push(bytes.substr(0, cut));
    in_two += stream.push(bytes.substr(cut));
    in_two += stream.finish();
    if (at != first_broken(bytes) || first_broken(mended) != mended.size() || in_two != mended ||
        (at == bytes.size()) != (mended == bytes)) {
      CAPTURE(number, bytes, at, mended, in_two);
      FAIL("read otherwise than it is defined");
    }
    whole += at == bytes.size();
  }
  CHECK(whole > 50'000);  // both kinds are among them
  CHECK(whole < 950'000);
}

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
