#include "quern/base/crc32c.hpp"

#include <array>

namespace quern {
namespace {

// Reflected: bit 31 stands for x^0, so multiplication by x is a shift to the right.
constexpr std::uint32_t kPolynomial = 0x82F63B78;

constexpr std::uint32_t times_x(std::uint32_t value) {
  return (value & 1) ? (value >> 1) ^ kPolynomial : value >> 1;
}

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b followed by k zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = times_x(value);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t one_byte(std::uint32_t value, unsigned char byte) {
  return (value >> 8) ^ kTables[0][(value ^ byte) & 0xFF];
}

std::uint32_t little_endian_32(const unsigned char* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8 |
         static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
}

// a b modulo the polynomial.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = std::uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = times_x(b);
  }
  return product;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t crc) {
  const auto* next = static_cast<const unsigned char*>(data);
  std::uint32_t value = ~crc;
  for (; bytes >= 8; bytes -= 8, next += 8) {
    const std::uint32_t low = value ^ little_endian_32(next);
    const std::uint32_t high = little_endian_32(next + 4);
    value = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^ kTables[5][(low >> 16) & 0xFF] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][(high >> 8) & 0xFF] ^
            kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; bytes > 0; --bytes, ++next) value = one_byte(value, *next);
  return ~value;
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  std::uint32_t shift = std::uint32_t{1} << 31;        // x^0
  std::uint32_t power = std::uint32_t{1} << (31 - 8);  // x^8, squared at each step
  for (std::uint64_t rest = second_bytes; rest != 0; rest >>= 1) {
    if (rest & 1) shift = multiply(shift, power);
    power = multiply(power, power);
  }
  return multiply(shift, first) ^ second;
}

}  // namespace quern
