#include "quern/kernels/muon.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/kernels/reduce.hpp"

namespace quern {
namespace {

/// Newton-Schulz on x, with y as big and a, b square of the smaller side; the result is in x or in y.
Tensor orthogonalised(Tensor x, Tensor y, Tensor a, Tensor b) {
  const bool wide = x.dim[0] <= x.dim[1];
  const double norm = std::sqrt(sum_of_squares(x.f32(), x.rows() * x.last()));
  add_scaled({x, 0}, x, static_cast<float>(1 / (norm + 1e-7)));
  for (int i = 0; i < 5; ++i) {
    const Mat X = x.mat(), A = a.mat();
    if (wide) {
      gemm(A, X, X.t());
    } else {
      gemm(A, X.t(), X);
    }
    gemm(b.mat(), A, A);
    add_scaled({b, 2.0315F}, a, -4.7750F);
    add_scaled({y, 0}, x, 3.4445F);
    if (wide) {
      gemm(y.mat(), b.mat(), X, {.beta = 1});
    } else {
      gemm(y.mat(), X, b.mat(), {.beta = 1});
    }
    std::swap(x, y);
  }
  return x;
}

}  // namespace

std::size_t muon_scratch(std::int64_t M, std::int64_t N) {
  const std::int64_t K = std::min(M, N);
  return static_cast<std::size_t>(2 * M * N + 2 * K * K);
}

Squares muon_update(Tensor w, Tensor g, Tensor m, Tensor shadow, const Muon& muon, std::span<float> scratch) {
  const std::int64_t M = w.dim[0], N = w.dim[1], K = std::min(M, N);
  QUERN_CHECK(scratch.size() >= muon_scratch(M, N), scratch.size(), M, N);
  QUERN_CHECK(w.rank == 2 && same_shape(w, g) && same_shape(w, m), M, N);
  QUERN_CHECK(w.contiguous() && g.contiguous() && m.contiguous(), M, N);
  float* free = scratch.data();
  const Tensor x(free, {M, N}), y(free + M * N, {M, N});
  const Tensor a(free + 2 * M * N, {K, K}), b(free + 2 * M * N + K * K, {K, K});

  const float fresh = (1 - muon.momentum) * muon.gradient_scale;
  add_scaled({m, muon.momentum}, g, fresh);
  add_scaled({x, 0}, m, muon.momentum);
  add_scaled({x, 1}, g, fresh);
  const Tensor o = orthogonalised(x, y, a, b);
  const Tensor change = o.data == x.data ? y : x;
  const double taller = std::max(1.0, static_cast<double>(M) / static_cast<double>(N));
  add_scaled({change, 0}, o, static_cast<float>(-muon.learning_rate * std::sqrt(taller)));
  add_scaled({change, 1}, w, -muon.learning_rate * muon.weight_decay);
  const Squares squares = {sum_of_squares(change.f32(), M * N), sum_of_squares(w.f32(), M * N)};
  add_scaled({w, 1}, change, 1);
  if (shadow) convert({shadow, 0}, w);
  return squares;
}

}  // namespace quern
