// Sixteen hexadecimal digits that tell one text or tokenizer from another (64-bit FNV-1a). They find a
// changed file; they are no defence against someone who builds a collision.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/rng.hpp"

namespace quern {

/// A 64-bit hash as 16 lower-case hexadecimal digits.
inline std::string hash_digits(std::uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

/// The 64-bit FNV-1a hash of the bytes, as 16 lower-case hexadecimal digits.
inline std::string fingerprint_of(std::string_view bytes) { return hash_digits(site_hash(bytes)); }

/// The fingerprint of several things, one behind the other, each told from its neighbours: a number is eight
/// bytes, a string stands behind its length, a list behind its own.
class Fingerprint {
 public:
  Fingerprint& number(std::uint64_t n) {
    std::array<char, 8> bytes;
    for (char& byte : bytes) {
      byte = static_cast<char>(n);
      n >>= 8;
    }
    return append({bytes.data(), bytes.size()});
  }
  Fingerprint& number(std::int64_t n) { return number(static_cast<std::uint64_t>(n)); }
  /// The bits of x: 0 and -0 are two.
  Fingerprint& value(double x) { return number(std::bit_cast<std::uint64_t>(x)); }
  Fingerprint& text(std::string_view bytes) { return number(std::uint64_t{bytes.size()}).append(bytes); }
  Fingerprint& texts(const std::vector<std::string>& list) {
    number(std::uint64_t{list.size()});
    for (const std::string& each : list) text(each);
    return *this;
  }

  /// 16 lower-case hexadecimal digits.
  std::string digits() const { return hash_digits(hash_); }

 private:
  Fingerprint& append(std::string_view bytes) {
    hash_ = site_hash(bytes, hash_);
    return *this;
  }

  std::uint64_t hash_ = site_hash({});
};

}  // namespace quern
