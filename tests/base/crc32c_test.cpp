#include "quern/base/crc32c.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"

using quern::crc32c;
using quern::crc32c_combine;

namespace {

// Bit by bit, from the definition.
std::uint32_t reference(const std::string& text) {
  std::uint32_t value = 0xFFFFFFFF;
  for (const char c : text) {
    value ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0u);
  }
  return ~value;
}

std::string bytes_of(std::size_t count) {
  std::string text;
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    text.push_back(static_cast<char>(state >> 24));
  }
  return text;
}

}  // namespace

TEST_CASE("crc32c: the vectors of RFC 3720, B.4") {
  const std::string zeros(32, '\0');
  const std::string ones(32, '\xFF');
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up.push_back(static_cast<char>(i));
    down.push_back(static_cast<char>(31 - i));
  }
  CHECK(crc32c(zeros.data(), 32) == 0x8A9136AAu);
  CHECK(crc32c(ones.data(), 32) == 0x62A8AB43u);
  CHECK(crc32c(up.data(), 32) == 0x46DD794Eu);
  CHECK(crc32c(down.data(), 32) == 0x113FDB5Cu);
  CHECK(crc32c("123456789", 9) == 0xE3069283u);
  CHECK(crc32c("", 0) == 0u);
  CHECK(crc32c(nullptr, 0) == 0u);
}

TEST_CASE("crc32c: every length and start agrees with the definition") {
  const std::string text = bytes_of(80);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t length = 0; begin + length <= text.size(); ++length) {
      REQUIRE(crc32c(text.data() + begin, length) == reference(text.substr(begin, length)));
    }
  }
}

TEST_CASE("crc32c: a text in two parts, going on and combined") {
  const std::string text = bytes_of(1000);
  const std::uint32_t whole = crc32c(text.data(), text.size());
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t first = crc32c(text.data(), cut);
    const std::uint32_t second = crc32c(text.data() + cut, text.size() - cut);
    REQUIRE(crc32c(text.data() + cut, text.size() - cut, first) == whole);
    REQUIRE(crc32c_combine(first, second, text.size() - cut) == whole);
  }
}

TEST_CASE("crc32c: combining over a length beyond 32 bits") {
  // 2^33 + 5 zero bytes in pieces of 2^20 bytes would take seconds; combining powers of two does it in
  // microseconds.
  const std::string block(std::size_t{1} << 10, '\0');
  std::uint32_t sum = crc32c(block.data(), block.size());
  std::uint64_t length = block.size();
  while (length < std::uint64_t{1} << 33) {
    sum = crc32c_combine(sum, sum, length);
    length *= 2;
  }
  // Appending five zero bytes to the sum must be the same as combining with their checksum.
  const std::uint32_t five = crc32c(block.data(), 5);
  CHECK(crc32c(block.data(), 5, sum) == crc32c_combine(sum, five, 5));
  // Associativity: (a a) a = a (a a), with lengths that need more than 32 bits.
  CHECK(crc32c_combine(crc32c_combine(sum, sum, length), sum, length) ==
        crc32c_combine(sum, crc32c_combine(sum, sum, length), 2 * length));
}
