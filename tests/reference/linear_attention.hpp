// Linear attention, slowly: kernels/linear_attention.hpp's quadratic form, weight by weight. All arrays are
// contiguous.
#pragma once

#include "quern/kernels/linear_attention.hpp"
#include "reference/attention.hpp"

namespace quern::reference {

inline std::int64_t feature_count(const AttentionShape& n, const LinearAttentionOptions& o) {
  return o.directions != nullptr ? o.n_features : n.D;
}

/// phi of the D numbers from `at` on.
template <class X>
std::vector<X> linear_features(const AttentionShape& n, const LinearAttentionOptions& o,
                               const std::vector<X>& x, std::size_t at) {
  using std::exp;
  std::vector<X> phi;
  if (o.directions == nullptr) {
    for (std::size_t d = at; d < at + static_cast<std::size_t>(n.D); ++d)
      phi.push_back(plain(x[d]) > 0 ? x[d] + X(1) : exp(x[d]));
    return phi;
  }
  const double scale = std::pow(static_cast<double>(n.D), -0.25);
  for (std::int64_t m = 0; m < o.n_features; ++m) {
    X exponent = 0;
    for (std::int64_t d = 0; d < n.D; ++d) {
      const X y = x[at + static_cast<std::size_t>(d)] * X(scale);
      exponent += X(double(o.directions[m * n.D + d])) * y - y * y * X(0.5);
    }
    phi.push_back(exp(exponent));
  }
  return phi;
}

/// The weights a(t,s) of query t of head h, of the keys that it sees.
template <class X>
std::vector<X> linear_weights(const AttentionShape& n, const LinearAttentionOptions& o,
                              const std::vector<X>& q, const std::vector<X>& k, std::int64_t b,
                              std::int64_t t, std::int64_t h) {
  std::int64_t end = o.lengths != nullptr ? o.lengths[b] : n.S;
  if (o.causal) end = std::min(end, t + 1);
  const auto query = linear_features(n, o, q, n.q(b, t, h, 0));
  std::vector<X> weights;
  for (std::int64_t s = 0; s < end; ++s) {
    const auto key = linear_features(n, o, k, n.k(b, s, h, 0));
    X a = 0;
    for (std::size_t m = 0; m < key.size(); ++m) a += query[m] * key[m];
    weights.push_back(a);
  }
  return weights;
}

/// (B,T,H,D).
template <class X>
std::vector<X> linear_attention(const AttentionShape& n, const std::vector<X>& q, const std::vector<X>& k,
                                const std::vector<X>& v, const LinearAttentionOptions& o) {
  std::vector<X> out(q.size(), X(0));
  for (std::int64_t b = 0; b < n.B; ++b)
    for (std::int64_t h = 0; h < n.H; ++h)
      for (std::int64_t t = 0; t < n.T; ++t) {
        const auto a = linear_weights(n, o, q, k, b, t, h);
        X den = 0;
        for (const X& weight : a) den += weight;
        for (std::int64_t d = 0; d < n.D; ++d)
          for (std::size_t s = 0; s < a.size(); ++s)
            out[n.q(b, t, h, d)] += a[s] / den * v[n.k(b, static_cast<std::int64_t>(s), h, d)];
      }
  return out;
}

/// Adds the gradient of x, from that of its features, behind `at`.
inline void add_feature_gradient(const AttentionShape& n, const LinearAttentionOptions& o,
                                 const std::vector<double>& x, std::size_t at, const std::vector<double>& phi,
                                 const std::vector<double>& dphi, std::vector<double>& dx) {
  const auto D = static_cast<std::size_t>(n.D);
  const double scale = std::pow(static_cast<double>(n.D), -0.25);
  for (std::size_t m = 0; m < phi.size(); ++m)
    if (o.directions == nullptr)
      dx[at + m] += dphi[m] * (x[at + m] > 0 ? 1 : phi[m]);
    else
      for (std::size_t d = 0; d < D; ++d)
        dx[at + d] += phi[m] * dphi[m] * scale * (double(o.directions[m * D + d]) - x[at + d] * scale);
}

/// The header's gradient formulas in double, in the quadratic form; itself held against Dual numbers.
inline AttentionGradients linear_attention_gradients(const AttentionShape& n, const std::vector<double>& dout,
                                                     const std::vector<double>& q,
                                                     const std::vector<double>& k,
                                                     const std::vector<double>& v,
                                                     const LinearAttentionOptions& o) {
  AttentionGradients g{
      std::vector<double>(q.size()), std::vector<double>(k.size()), std::vector<double>(v.size()), {}};
  const auto out = linear_attention(n, q, k, v, o);
  const auto M = static_cast<std::size_t>(feature_count(n, o));
  for (std::int64_t b = 0; b < n.B; ++b)
    for (std::int64_t h = 0; h < n.H; ++h)
      for (std::int64_t t = 0; t < n.T; ++t) {
        const auto a = linear_weights(n, o, q, k, b, t, h);
        const auto query = linear_features(n, o, q, n.q(b, t, h, 0));
        double den = 0, delta = 0;
        for (const double weight : a) den += weight;
        for (std::int64_t d = 0; d < n.D; ++d) delta += dout[n.q(b, t, h, d)] * out[n.q(b, t, h, d)] / den;
        std::vector<double> dquery(M), dkey(M);
        for (std::size_t i = 0; i < a.size(); ++i) {
          const auto s = static_cast<std::int64_t>(i);
          const auto key = linear_features(n, o, k, n.k(b, s, h, 0));
          double da = -delta;
          for (std::int64_t d = 0; d < n.D; ++d) {
            const double gradient = dout[n.q(b, t, h, d)] / den;
            da += gradient * v[n.k(b, s, h, d)];
            g.dv[n.k(b, s, h, d)] += a[i] * gradient;
          }
          for (std::size_t m = 0; m < M; ++m) dquery[m] += da * key[m], dkey[m] = da * query[m];
          add_feature_gradient(n, o, k, n.k(b, s, h, 0), key, dkey, g.dk);
        }
        if (!a.empty()) add_feature_gradient(n, o, q, n.q(b, t, h, 0), query, dquery, g.dq);
      }
  return g;
}

}  // namespace quern::reference
