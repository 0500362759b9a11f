// Sums and searches over many numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quern/kernels/tensor.hpp"

namespace quern {

/// sum of x[i]^2 over n numbers, in double.
double sum_of_squares(const float* x, std::int64_t n);

/// The squares of what an update adds to weights, and of the weights before it, each summed.
struct Squares {
  double change = 0, weights = 0;

  Squares& operator+=(const Squares& other) {
    change += other.change;
    weights += other.weights;
    return *this;
  }
};

/// out[c] = sum over rows of x[r,c] + beta * out[c]: a bias's gradient. out (C), x (R,C) of either type, rows
/// may lie apart. `scratch` holds column_sum_scratch(R, C) floats.
void column_sum(Sink out, Tensor x, std::span<float> scratch);
std::size_t column_sum_scratch(std::int64_t rows, std::int64_t cols);

/// The index of the first NaN or infinity; -1 when all n numbers are finite.
std::int64_t first_nonfinite(const float* x, std::int64_t n);

/// Whether x holds neither, whatever its type and strides. Slow: for a search, not for each step.
bool all_finite(const Tensor& x);

}  // namespace quern
