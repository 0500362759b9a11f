// Sixteen hexadecimal digits that tell one text or tokenizer from another (64-bit FNV-1a). They find a
// changed file; they are no defence against someone who builds a collision.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

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

}  // namespace quern
