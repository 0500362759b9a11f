// Multi-head attention with its projections, slowly, under any scalar type.
#pragma once

#include "reference/affine.hpp"
#include "reference/attention.hpp"
#include "reference/rotary.hpp"

namespace quern::reference {

/// As nn/attention.hpp has them; biases and gains may be empty.
template <class X>
struct MultiHeadWeights {
  std::vector<X> qkv, qkv_bias, q_gain, k_gain, out, out_bias;
};

/// x (B,T,C), memory (B,S,C) -> (B,T,C). `options` but for its scale, which is 1 / sqrt(D) to the type's
/// precision; theta 0: no rotary positions.
template <class X>
std::vector<X> multi_head_attention(const AttentionShape& n, const MultiHeadWeights<X>& w,
                                    const std::vector<X>& x, const std::vector<X>& memory,
                                    AttentionOptions options, double theta, double eps) {
  const auto C = static_cast<std::size_t>(n.H * n.D), K = static_cast<std::size_t>(n.Hkv * n.D);
  const auto rows = [C](const std::vector<X>& of, std::size_t width, std::size_t first, std::size_t count) {
    const auto at = of.begin() + static_cast<std::ptrdiff_t>(of.empty() ? 0 : first * width);
    return std::vector<X>(at, at + static_cast<std::ptrdiff_t>(of.empty() ? 0 : count * width));
  };
  const auto project = [&](const std::vector<X>& from, std::size_t first, std::size_t count) {
    return affine(from, rows(w.qkv, C, first, count), rows(w.qkv_bias, 1, first, count), C);
  };
  const auto place = [&](const std::vector<X>& heads, const std::vector<X>& gain, std::int64_t H,
                         std::int64_t length) {
    return rotary(heads, gain, static_cast<std::size_t>(n.D), static_cast<std::size_t>(H),
                  static_cast<std::size_t>(length), 0, theta, eps);
  };
  std::vector<X> q = place(project(x, 0, C), w.q_gain, n.H, n.T);
  for (X& number : q) number *= X(1 / std::sqrt(static_cast<double>(n.D)));
  options.scale = 1;
  const auto k = place(project(memory, C, K), w.k_gain, n.Hkv, n.S);
  return affine(attention(n, q, k, project(memory, C + K, K), options), w.out, w.out_bias, C);
}

}  // namespace quern::reference
