#pragma once

#include <cmath>
#include <vector>

#include "quern/kernels/norm.hpp"
#include "reference/dual.hpp"

namespace quern::reference {

template <class T>
struct ResidualNorm {
  std::vector<T> x, h, mean, rstd;
};

/// stream, branch (R,C), gain, bias (C); branch and bias may be empty. RMSNorm's mean is 0.
template <class T>
ResidualNorm<T> residual_norm(const std::vector<T>& stream, const std::vector<T>& branch,
                              const std::vector<T>& gain, const std::vector<T>& bias, double eps,
                              const Dropout& dropout, NormKind kind = NormKind::layernorm) {
  using std::sqrt;
  const std::size_t cols = gain.size(), rows = stream.size() / cols;
  ResidualNorm<T> out = {stream, stream, std::vector<T>(rows), std::vector<T>(rows)};
  for (std::size_t r = 0; r < rows; ++r) {
    T* x = &out.x[r * cols];
    T mean = 0, squares = 0;
    for (std::size_t c = 0; c < cols; ++c) {
      const double mask = dropout.factor(r, static_cast<std::uint32_t>(c));
      if (!branch.empty()) x[c] += T(mask) * branch[r * cols + c];
      if (kind == NormKind::layernorm) mean += x[c] / T(double(cols));
    }
    for (std::size_t c = 0; c < cols; ++c) squares += (x[c] - mean) * (x[c] - mean);
    out.mean[r] = mean;
    out.rstd[r] = T(1) / sqrt(squares / T(double(cols)) + T(eps));
    for (std::size_t c = 0; c < cols; ++c)
      out.h[r * cols + c] = (x[c] - mean) * out.rstd[r] * gain[c] + (bias.empty() ? T(0) : bias[c]);
  }
  return out;
}

}  // namespace quern::reference
