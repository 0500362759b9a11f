#pragma once

#include <bit>
#include <cstdint>

namespace quern {

/// bfloat16: the upper half of a float. Storage only; arithmetic is done in float.
struct bf16 {
  std::uint16_t bits;
};

/// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr bf16 to_bf16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((u >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16)};
}

constexpr float to_float(bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

}  // namespace quern
