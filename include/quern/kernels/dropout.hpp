#pragma once

#include <cmath>
#include <cstdint>

#include "quern/base/rng.hpp"
#include "quern/kernels/tensor.hpp"

namespace quern {

/// Dropout (Srivastava et al. 2014) without a stored mask: element (row, column) is kept when its 16-bit
/// number is at or above `threshold`, and is then multiplied by `scale` = 1 / (1 - rate). The number is half
/// `column % 8` (low half of word 0 first) of stream.at(first_row + row, column / 8). `rate` is rounded to a
/// multiple of 2^-16.
struct Dropout {
  RandomStream stream{};
  std::uint64_t first_row = 0;  // the global index of the tensor's row 0
  std::uint32_t threshold = 0;  // 0: no dropout
  float scale = 1;

  Dropout() = default;
  Dropout(RandomStream stream_, double rate, std::uint64_t first_row_)
      : stream(stream_),
        first_row(first_row_),
        threshold(static_cast<std::uint32_t>(std::lround(rate * 65536))) {
    scale = static_cast<float>(65536.0 / (65536.0 - threshold));
  }

  explicit operator bool() const { return threshold != 0; }

  /// The factor of one element: 0 or `scale`. The text that explains the fast loops, and their oracle in
  /// tests.
  float factor(std::uint64_t row, std::uint32_t column) const {
    if (threshold == 0) return 1;
    const std::uint32_t word = stream.at(first_row + row, column / 8)[(column % 8) / 2];
    const std::uint32_t half = column % 2 == 0 ? word & 0xffffU : word >> 16;
    return half >= threshold ? scale : 0;
  }
};

/// to = factor * x + beta * to, row by row with each element's factor: forward from x to y, backward from dy
/// to dx. Each is f32 or bf16  // (R,C). There is a dropout. An empty sink is skipped.
void drop(Sink to, Tensor x, const Dropout& dropout);

}  // namespace quern
