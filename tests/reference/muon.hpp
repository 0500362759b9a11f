#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "quern/kernels/muon.hpp"

namespace quern::reference {

/// u (M,N) as its five Newton-Schulz steps leave it.
template <class T>
std::vector<T> orthogonalised(std::vector<T> x, std::int64_t M, std::int64_t N) {
  const std::int64_t K = std::min(M, N), L = std::max(M, N);
  const auto at = [&](const std::vector<T>& v, std::int64_t k, std::int64_t l) {  // the wide orientation
    return v[std::size_t(M <= N ? k * N + l : l * N + k)];
  };
  T norm = 0;
  for (const T v : x) norm += v * v;
  for (T& v : x) v /= std::sqrt(norm) + T(1e-7);
  for (int step = 0; step < 5; ++step) {
    std::vector<T> a(std::size_t(K * K)), b = a, y = x;
    for (std::int64_t i = 0; i < K; ++i)
      for (std::int64_t j = 0; j < K; ++j)
        for (std::int64_t l = 0; l < L; ++l) a[std::size_t(i * K + j)] += at(x, i, l) * at(x, j, l);
    for (std::int64_t i = 0; i < K; ++i)
      for (std::int64_t j = 0; j < K; ++j) {
        T sum = 0;
        for (std::int64_t k = 0; k < K; ++k) sum += a[std::size_t(i * K + k)] * a[std::size_t(k * K + j)];
        b[std::size_t(i * K + j)] = T(-4.7750) * a[std::size_t(i * K + j)] + T(2.0315) * sum;
      }
    for (std::int64_t i = 0; i < K; ++i)
      for (std::int64_t l = 0; l < L; ++l) {
        T sum = T(3.4445) * at(x, i, l);
        for (std::int64_t k = 0; k < K; ++k) sum += b[std::size_t(i * K + k)] * at(x, k, l);
        y[std::size_t(M <= N ? i * N + l : l * N + i)] = sum;
      }
    x = y;
  }
  return x;
}

template <class T>
void muon(std::vector<T>& w, const std::vector<T>& g, std::vector<T>& m, std::int64_t M, std::int64_t N,
          const Muon& a) {
  std::vector<T> u(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T fresh = (1 - T(a.momentum)) * T(a.gradient_scale) * g[i];
    m[i] = T(a.momentum) * m[i] + fresh;
    u[i] = T(a.momentum) * m[i] + fresh;
  }
  const auto o = orthogonalised(u, M, N);
  const T rate = T(a.learning_rate) * std::sqrt(std::max(T(1), T(M) / T(N)));
  for (std::size_t i = 0; i < w.size(); ++i)
    w[i] = (1 - T(a.learning_rate) * T(a.weight_decay)) * w[i] - rate * o[i];
}

}  // namespace quern::reference
