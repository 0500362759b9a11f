// UTF-8 as The Unicode Standard (15.0, section 3.9, table 3-7) defines it: overlong forms, surrogates and
// values above U+10FFFF are not UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/strict_json.hpp"

namespace quern {

/// What the first bytes of a string are.
struct Utf8Char {
  enum class Status : std::uint8_t {
    ok,         // a whole character
    invalid,    // bytes that no continuation makes a character
    truncated,  // the string ends inside what may still become a character
  };
  char32_t code_point = 0;  // U+FFFD unless ok
  std::uint8_t length =
      0;  // bytes used: of the character, or of the maximal subpart to replace by one U+FFFD
  Status status = Status::invalid;
};

/// Reads one character at the start of `bytes`, which is not empty. A broken sequence has the length of its
/// "maximal subpart" (Unicode 3.9, definition D93b), so that replacing each by U+FFFD agrees with other
/// readers.
Utf8Char read_utf8(std::string_view bytes);

/// Appends the one to four bytes of a code point that is no surrogate and at most U+10FFFF.
void append_utf8(std::string& out, char32_t code_point);

/// A character for a message: 'é' (U+00E9); controls and other unprintables as their number alone, U+0007.
std::string describe_character(char32_t code_point);

/// Where byte `at` of a text stands: its line and, in bytes, its column.
TextPosition position_of(std::string_view text, std::size_t at);

/// Which code points a text has: a bit for each that Unicode knows.
class CodePointSet {
 public:
  void insert(char32_t code_point) { words_[code_point / 64] |= std::uint64_t{1} << code_point % 64; }
  std::size_t size() const;
  std::vector<char32_t> sorted() const;

 private:
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(0x110000 / 64);
};

/// Cuts a stream of bytes at characters, so that what is printed is UTF-8 at any moment. Bytes that are not
/// UTF-8 come out as U+FFFD, one for each maximal subpart.
class Utf8Stream {
 public:
  /// The whole characters that are complete now; at most three bytes are kept for the next call.
  std::string push(std::string_view bytes);

  /// Ends the stream: U+FFFD for an incomplete character that was kept, else nothing.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace quern
