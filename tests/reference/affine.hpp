#pragma once

#include <cstddef>
#include <vector>

namespace quern::reference {

/// y (R,N) = x (R,K) wᵀ + b; w (N,K), b (N) or empty.
template <class T>
std::vector<T> affine(const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b,
                      std::size_t K) {
  const std::size_t N = w.size() / K, R = x.size() / K;
  std::vector<T> y(R * N);
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t n = 0; n < N; ++n) {
      T sum = b.empty() ? T(0) : b[n];
      for (std::size_t k = 0; k < K; ++k) sum += x[r * K + k] * w[n * K + k];
      y[r * N + n] = sum;
    }
  return y;
}

}  // namespace quern::reference
