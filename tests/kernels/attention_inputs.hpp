// What the tests of attention's kernel share: inputs as the engine has them, one run, and the comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quern/kernels/attention.hpp"
#include "reference/attention.hpp"
#include "reference/check.hpp"

namespace quern::reference {

// Rounding: a score is a sum of D products of numbers near 1, scaled by 1 / sqrt(D): an error of a few 2^-24,
// which is the relative error of its weight, beside 3e-7 of the exponential. Outputs and gradients are sums
// over keys or queries of such terms with random signs. Of up to 130 of them 5e-6 of the tensor's largest
// number holds for all of it with a factor of about 3 to spare; of more the error of adding them up one by
// one grows as the root of their number.
inline double attention_tolerance(const AttentionShape& n) {
  return 5e-6 * std::sqrt(static_cast<double>(std::max({n.T, n.S, std::int64_t{130}})) / 130);
}

/// Inputs as the engine has them: q, k, v in one packed projection (B,T,3,H,D) when S = T; else k and v in
/// one cache.
struct AttentionInputs {
  AttentionShape n;
  std::vector<float> q, k, v, dout;
  AttentionOptions options;

  explicit AttentionInputs(AttentionShape n_, AttentionMask mask = {}, std::uint64_t seed = 1) : n(n_) {
    q = normal(n.queries(), seed);
    k = normal(n.keys(), seed + 1);
    v = normal(n.keys(), seed + 2);
    dout = normal(n.queries(), seed + 3);
    options.scale = static_cast<float>(1 / std::sqrt(double(n.D)));
    options.mask = mask;
  }
};

/// A (B,rows,H,D) view on part `which` of a (B,rows,parts,H,D) buffer.
inline Tensor part_of(float* data, const AttentionShape& n, std::int64_t H, std::int64_t rows,
                      std::int64_t parts, std::int64_t which) {
  Tensor x(data, {n.B, rows, H, n.D});
  x.data = data + which * H * n.D;
  x.stride[1] = parts * H * n.D;
  x.stride[0] = rows * x.stride[1];
  return x;
}

inline void scatter(const Tensor& to, const std::vector<float>& from) {
  for (std::int64_t b = 0, i = 0; b < to.dim[0]; ++b)
    for (std::int64_t t = 0; t < to.dim[1]; ++t)
      for (std::int64_t h = 0; h < to.dim[2]; ++h)
        for (std::int64_t d = 0; d < to.dim[3]; ++d, ++i)
          to.f32()[b * to.stride[0] + t * to.stride[1] + h * to.stride[2] + d] =
              from[static_cast<std::size_t>(i)];
}

inline std::vector<float> gather(const Tensor& from) {
  std::vector<float> to;
  for (std::int64_t b = 0; b < from.dim[0]; ++b)
    for (std::int64_t t = 0; t < from.dim[1]; ++t)
      for (std::int64_t h = 0; h < from.dim[2]; ++h)
        for (std::int64_t d = 0; d < from.dim[3]; ++d)
          to.push_back(from.f32()[b * from.stride[0] + t * from.stride[1] + h * from.stride[2] + d]);
  return to;
}

struct AttentionResults {
  std::vector<float> out, lse, dq, dk, dv;
};

inline AttentionResults run(const AttentionInputs& in, float beta = 0,
                            const std::vector<float>* before = nullptr) {
  const AttentionShape& n = in.n;
  std::vector<float> queries = poison(3 * n.queries()), keys = poison(2 * n.keys());
  const Tensor q = part_of(queries.data(), n, n.H, n.T, 3, 1);
  const Tensor k = part_of(keys.data(), n, n.Hkv, n.S, 2, 0), v = part_of(keys.data(), n, n.Hkv, n.S, 2, 1);
  scatter(q, in.q);
  scatter(k, in.k);
  scatter(v, in.v);
  std::vector<float> out = poison(n.queries()), lse = poison(n.B * n.H * n.T), dout = in.dout;
  const Tensor out_view(out.data(), {n.B, n.T, n.H, n.D}), dout_view(dout.data(), {n.B, n.T, n.H, n.D});
  attention_forward(out_view, lse.data(), q, k, v, in.options);

  std::vector<float> dqueries = poison(3 * n.queries()), dkeys = poison(2 * n.keys());
  const Sink dq{part_of(dqueries.data(), n, n.H, n.T, 3, 1), beta};
  const Sink dk{part_of(dkeys.data(), n, n.Hkv, n.S, 2, 0), beta};
  const Sink dv{part_of(dkeys.data(), n, n.Hkv, n.S, 2, 1), beta};
  if (before) {
    scatter(dq.to, before[0]);
    scatter(dk.to, before[1]);
    scatter(dv.to, before[2]);
  }
  std::vector<float> scratch(attention_backward_scratch(n.B, n.T, n.S, n.Hkv, n.D),
                             std::numeric_limits<float>::quiet_NaN());
  attention_backward(dq, dk, dv, dout_view, out_view, lse.data(), q, k, v, in.options, scratch);
  return {out, lse, gather(dq.to), gather(dk.to), gather(dv.to)};
}

inline void check_against_reference(const AttentionInputs& in) {
  INFO("B " << in.n.B << " T " << in.n.T << " S " << in.n.S << " H " << in.n.H << " over " << in.n.Hkv
            << " D " << in.n.D << " causal " << in.options.mask.causal << " offset " << in.options.mask.offset
            << " window " << in.options.mask.window << " globals " << in.options.mask.globals << " documents "
            << (in.options.mask.starts != nullptr));
  const auto q = widen(in.q), k = widen(in.k), v = widen(in.v), dout = widen(in.dout);
  std::vector<double> lse;
  const auto out = attention(in.n, q, k, v, in.options, &lse);
  const auto g = attention_gradients(in.n, dout, q, k, v, in.options);
  const AttentionResults got = run(in);
  const double tolerance = attention_tolerance(in.n);
  CHECK(relative_error(got.out, out) < tolerance);
  for (std::size_t i = 0; i < lse.size(); ++i)
    if (std::isinf(lse[i]))
      CHECK(got.lse[i] == -std::numeric_limits<float>::infinity());
    else
      CHECK(std::abs(got.lse[i] - lse[i]) < 1e-6 * std::max(1.0, std::abs(lse[i])));
  // A row of one key has dS = dP - sum_s P dP = 0 exactly. What rounding leaves of it grows with dP, a sum of
  // D products, as root D: where all rows are such, T of them times a query add up to root(T D) 2^-24 in dK.
  // Four times that is the tolerance for gradients of this size.
  const double size = std::max(1.0, std::sqrt(static_cast<double>(in.n.D)) / 2);
  CHECK(relative_error(got.dq, g.dq, size) < tolerance);
  CHECK(relative_error(got.dk, g.dk, size) < tolerance);
  CHECK(relative_error(got.dv, g.dv, 1) < tolerance);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace quern::reference
