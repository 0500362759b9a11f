// Scaled dot-product attention, slowly: kernels/attention.hpp's formulas, score by score. All arrays are
// contiguous. With `w` (H,D) scores are additive.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dual.hpp"
#include "quern/kernels/attention.hpp"

namespace quern::reference {

struct AttentionShape {
  std::int64_t B, T, S, H, D;
  std::int64_t Hkv = H;  // heads of k and v

  std::int64_t queries() const { return B * T * H * D; }
  std::int64_t keys() const { return B * S * Hkv * D; }
  std::size_t q(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(((b * T + t) * H + h) * D + d);
  }
  /// The key that query head h reads.
  std::size_t k(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(((b * S + s) * Hkv + h / (H / Hkv)) * D + d);
  }
};

template <class X>
struct AttentionRow {
  std::vector<std::int64_t> keys;  // those it sees
  std::vector<X> weight;           // P, one a key
  std::vector<double> factor;      // f
  X lse;
};

template <class X>
AttentionRow<X> attention_row(const AttentionShape& n, const std::vector<X>& q, const std::vector<X>& k,
                              const AttentionOptions& o, std::int64_t b, std::int64_t t, std::int64_t h,
                              const std::vector<X>& w = {}) {
  using std::exp, std::log, std::tanh;
  AttentionRow<X> row{{}, {}, {}, X(-std::numeric_limits<double>::infinity())};
  Dropout dropout = o.dropout;
  dropout.first_row = 0;
  const auto number =
      static_cast<std::uint64_t>(((static_cast<std::int64_t>(o.dropout.first_row) + b) * n.H + h) * n.T + t);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t s = 0; s < n.S; ++s) {
    if (!o.mask.sees(b, t, s, n.S)) continue;
    X score = 0;
    for (std::int64_t d = 0; d < n.D; ++d) {
      const X &query = q[n.q(b, t, h, d)], &key = k[n.k(b, s, h, d)];
      score += w.empty() ? query * key : w[static_cast<std::size_t>(h * n.D + d)] * tanh(query + key);
    }
    const auto distance = static_cast<double>(o.mask.distance(t, s));
    row.keys.push_back(s);
    row.weight.push_back(score * X(o.scale) + X(o.slopes ? double(o.slopes[h]) * distance : 0));
    row.factor.push_back(dropout.factor(number, static_cast<std::uint32_t>(s)));
    largest = std::max(largest, double(plain(row.weight.back())));
  }
  if (row.weight.empty()) return row;
  X total = 0;
  for (const X& score : row.weight) total += exp(score - X(largest));
  row.lse = log(total) + X(largest);
  for (X& weight : row.weight) weight = exp(weight - row.lse);
  return row;
}

/// (B,T,H,D); lse, when wanted, is (B,H,T).
template <class X>
std::vector<X> attention(const AttentionShape& n, const std::vector<X>& q, const std::vector<X>& k,
                         const std::vector<X>& v, const AttentionOptions& o, std::vector<X>* lse = nullptr,
                         const std::vector<X>& w = {}) {
  std::vector<X> out(q.size(), X(0));
  if (lse) lse->clear();
  for (std::int64_t b = 0; b < n.B; ++b)
    for (std::int64_t h = 0; h < n.H; ++h)
      for (std::int64_t t = 0; t < n.T; ++t) {
        const auto row = attention_row(n, q, k, o, b, t, h, w);
        if (lse) lse->push_back(row.lse);
        for (std::size_t i = 0; i < row.keys.size(); ++i)
          for (std::int64_t d = 0; d < n.D; ++d)
            out[n.q(b, t, h, d)] += row.weight[i] * X(row.factor[i]) * v[n.k(b, row.keys[i], h, d)];
      }
  return out;
}

struct AttentionGradients {
  std::vector<double> dq, dk, dv, dw;
};

/// The header's gradient formulas in double; itself held against Dual numbers.
inline AttentionGradients attention_gradients(const AttentionShape& n, const std::vector<double>& dout,
                                              const std::vector<double>& q, const std::vector<double>& k,
                                              const std::vector<double>& v, const AttentionOptions& o,
                                              const std::vector<double>& w = {}) {
  AttentionGradients g{std::vector<double>(q.size()), std::vector<double>(k.size()),
                       std::vector<double>(v.size()), std::vector<double>(w.size())};
  const auto out = attention(n, q, k, v, o, {}, w);
  for (std::int64_t b = 0; b < n.B; ++b)
    for (std::int64_t h = 0; h < n.H; ++h)
      for (std::int64_t t = 0; t < n.T; ++t) {
        const auto row = attention_row(n, q, k, o, b, t, h, w);
        double delta = 0;
        for (std::int64_t d = 0; d < n.D; ++d) delta += dout[n.q(b, t, h, d)] * out[n.q(b, t, h, d)];
        for (std::size_t i = 0; i < row.keys.size(); ++i) {
          const std::int64_t s = row.keys[i];
          double dweight = 0;
          for (std::int64_t d = 0; d < n.D; ++d) dweight += dout[n.q(b, t, h, d)] * v[n.k(b, s, h, d)];
          const double dscore = row.weight[i] * (row.factor[i] * dweight - delta) * double(o.scale);
          for (std::int64_t d = 0; d < n.D; ++d) {
            double by_query = k[n.k(b, s, h, d)], by_key = q[n.q(b, t, h, d)];
            if (!w.empty()) {
              const double u = std::tanh(by_query + by_key);
              const auto i_w = static_cast<std::size_t>(h * n.D + d);
              g.dw[i_w] += dscore * u;
              by_query = by_key = w[i_w] * (1 - u * u);
            }
            g.dq[n.q(b, t, h, d)] += dscore * by_query;
            g.dk[n.k(b, s, h, d)] += dscore * by_key;
            g.dv[n.k(b, s, h, d)] += row.factor[i] * row.weight[i] * dout[n.q(b, t, h, d)];
          }
        }
      }
  return g;
}

}  // namespace quern::reference
