#include "quern/text/utf8.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "quern/base/check.hpp"

namespace quern {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// What a lead byte announces: the sequence's length (0: no lead byte) and the range of its second byte, in
/// which the exclusion of overlong forms, surrogates and values above U+10FFFF lies (table 3-7).
struct Lead {
  int length;
  unsigned low, high;
};

Lead lead(unsigned byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

bool printable(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD) return false;  // controls, soft hyphen
  if (c >= 0x300 && c < 0x370) return false;                           // combining marks
  if (c >= 0x200B && c <= 0x200F) return false;                        // zero width, directions
  if (c >= 0x2028 && c <= 0x202E) return false;                        // separators, directions
  if (c >= 0x2060 && c <= 0x206F) return false;                        // invisible operators, isolates
  if (c >= 0xE000 && c < 0xF900) return false;                         // private use
  if (c == 0xFEFF || (c >= 0xFFF0 && c < 0x10000 && c != kReplacement))
    return false;      // byte order mark, specials
  return c < 0xE0000;  // tags, private planes
}

}  // namespace

Utf8Char read_utf8(std::string_view bytes) {
  using Status = Utf8Char::Status;
  QUERN_CHECK(!bytes.empty());
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(bytes[i]));
  };
  const Lead first = lead(byte(0));
  if (first.length == 0) return {kReplacement, 1, Status::invalid};
  if (first.length == 1) return {byte(0), 1, Status::ok};

  char32_t code_point = byte(0) & (0x7FU >> first.length);
  for (int i = 1; i < first.length; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto used = static_cast<std::uint8_t>(i);
    if (at == bytes.size()) return {kReplacement, used, Status::truncated};
    const unsigned low = i == 1 ? first.low : 0x80;
    const unsigned high = i == 1 ? first.high : 0xBF;
    if (byte(at) < low || byte(at) > high) return {kReplacement, used, Status::invalid};
    code_point = (code_point << 6) | (byte(at) & 0x3F);
  }
  return {code_point, static_cast<std::uint8_t>(first.length), Status::ok};
}

void append_utf8(std::string& out, char32_t c) {
  QUERN_CHECK(c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF), static_cast<std::uint32_t>(c));
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string describe_character(char32_t code_point) {
  char number[16];
  std::snprintf(number, sizeof number, "U+%04X", static_cast<unsigned>(code_point));
  if (!printable(code_point)) return number;
  std::string text = "'";
  append_utf8(text, code_point);
  return text + "' (" + number + ")";
}

TextPosition position_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t newline = before.rfind('\n');
  const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
  return {std::count(before.begin(), before.end(), '\n') + 1, static_cast<std::int64_t>(at - line_start) + 1};
}

std::size_t CodePointSet::size() const {
  std::size_t count = 0;
  for (const std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

std::vector<char32_t> CodePointSet::sorted() const {
  std::vector<char32_t> found;
  for (std::size_t i = 0; i < words_.size(); ++i)
    for (std::uint64_t bits = words_[i]; bits != 0; bits &= bits - 1)
      found.push_back(static_cast<char32_t>(i * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
  return found;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_.append(bytes);
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Char c = read_utf8(rest);
    if (c.status == Utf8Char::Status::truncated) break;
    append_utf8(out, c.code_point);
    rest.remove_prefix(c.length);
  }
  pending_ = std::string(rest);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out;
  if (!pending_.empty()) append_utf8(out, kReplacement);
  pending_.clear();
  return out;
}

}  // namespace quern
