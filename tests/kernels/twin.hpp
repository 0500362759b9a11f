// The same numbers as bf16 and as f32, for what kernels do with either.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "quern/base/bf16.hpp"
#include "quern/base/cpu.hpp"
#include "quern/kernels/tensor.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

namespace quern::reference {

inline constexpr bf16 poisoned = {0x7fc1};  // a NaN

/// The same numbers as bf16 and, widened, as f32.
struct Twin {
  std::vector<bf16> half;
  std::vector<float> wide;

  Twin(std::int64_t n, std::uint64_t seed, double deviation = 1) {
    for (const float x : normal(n, seed, deviation))
      half.push_back(to_bf16(x)), wide.push_back(to_float(half.back()));
  }
  explicit Twin(std::int64_t n) : half(static_cast<std::size_t>(n), poisoned), wide(poison(n)) {}

  Tensor h(std::initializer_list<std::int64_t> shape) {
    return {half.data(), Type::bf16, std::span(shape.begin(), shape.size())};
  }
  Tensor f(std::initializer_list<std::int64_t> shape) { return {wide.data(), shape}; }

  /// Whether each bf16 number is the f32 number rounded.
  bool rounded() const {
    for (std::size_t i = 0; i < half.size(); ++i)
      if (half[i].bits != to_bf16(wide[i]).bits) return false;
    return true;
  }
  /// As attention has it: by AMX its products take bf16 weights and gradients of scores (see amx_test.cpp).
  bool rounded_weights() const {
    if (isa() != Isa::amx) return rounded();
    std::vector<float> widened;
    for (const bf16 x : half) widened.push_back(to_float(x));
    return relative_error(widened, wide) < 9 * 0x1p-9;
  }
};

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace quern::reference
