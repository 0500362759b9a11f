#include "quern/kernels/attention.hpp"

#include <cmath>

#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

Sink by_head(Sink sink, std::int64_t heads) {
  if (sink) sink.to = sink.to.split_last(heads);
  return sink;
}

/// The factor of scores of width D.
float scale_of(std::int64_t D) { return 1 / std::sqrt(static_cast<float>(D)); }

/// The pairs of a query and a key that it sees, of one head.
double visible_pairs(const AttentionMask& mask, std::int64_t B, std::int64_t T, std::int64_t S) {
  double pairs = 0;
  const std::int64_t different = mask.lengths != nullptr ? B : 1;  // sequences that may differ in it
  for (std::int64_t b = 0; b < different; ++b)
    for (std::int64_t t = 0; t < T; ++t) {
      const AttentionMask::Span span = mask.span(b, t, S);
      pairs += static_cast<double>(span.end - span.begin + std::min(mask.globals, span.begin));
    }
  return pairs * static_cast<double>(B / different);
}

/// Two products a pair forward (QKᵀ, PV), five backward: QKᵀ again, dP, dV, dQ, dK. Forward reads q, k and v
/// and writes the output; backward reads these and dout and writes dq, dk and dv.  q (B,T,C), k (B,S,K)
OpCost attention_cost(const Tensor& q, const Tensor& k, std::int64_t heads, std::int64_t key_heads,
                      const AttentionMask& mask) {
  const std::int64_t B = q.dim[0], T = q.dim[1], S = k.dim[1], C = q.dim[2];
  const double product = 2 * static_cast<double>(C) * visible_pairs(mask, B, T, S);
  const double queries = static_cast<double>(q.bytes()), keys = static_cast<double>(k.bytes());
  return {{2 * product, 2 * queries + 2 * keys},
          {5 * product, 4 * queries + 4 * keys},
          {bytes_of_floats(attention_backward_scratch(B, T, S, key_heads, C / heads))}};
}

}  // namespace

Var attention(Tape& tape, Var q, Var k, Var v, std::int64_t heads, std::int64_t key_heads,
              const AttentionMask& mask, DropoutSite dropout, const float* slopes) {
  QUERN_CHECK(
      q.shape().rank == 3 && same_shape(k.shape(), v.shape()) && q.dim(2) * key_heads == k.dim(2) * heads,
      q.shape().rank, q.dim(2), heads, k.dim(2), key_heads);
  const std::int64_t B = q.dim(0), T = q.dim(1), C = q.dim(2);
  const AttentionOptions options{scale_of(C / heads), mask, slopes,
                                 tape.dropout(dropout.site, dropout.rate, 1)};
  const Var out = tape.make({B, T, C}, q.shape().type);  // (B,T,C)
  float* lse = tape.statistics(B * heads * T);           // (B,H,T)
  const auto by_query = [heads](const Tensor& x) { return x.split_last(heads); };
  const auto by_key = [key_heads](const Tensor& x) { return x.split_last(key_heads); };
  if (const Running run = tape.run("attention", attention_cost(q.shape(), k.shape(), heads, key_heads, mask)))
    attention_forward(by_query(out.value()), lse, by_query(q.value()), by_key(k.value()), by_key(v.value()),
                      options);
  tape.record("attention", {q, k, v}, {out},
              [q = tape.keep(q), k = tape.keep(k), v = tape.keep(v), out = tape.keep(out), lse, heads,
               key_heads, options, by_query, by_key](Tape& t) {
                const Sink dq = by_head(t.sink(q), heads), dk = by_head(t.sink(k), key_heads),
                           dv = by_head(t.sink(v), key_heads);
                const Scratch scratch(
                    t, attention_backward_scratch(q.dim(0), q.dim(1), k.dim(1), key_heads, q.dim(2) / heads));
                attention_backward(dq, dk, dv, by_query(t.grad(out)), by_query(out.value()), lse,
                                   by_query(t.value(q)), by_key(t.value(k)), by_key(v.value()), options,
                                   scratch.span());
              });
  return out;
}

std::vector<float> attention_weights(Var q, Var k, std::int64_t heads, std::int64_t key_heads,
                                     const AttentionMask& mask, const float* slopes, std::int64_t head) {
  const std::int64_t B = q.dim(0), each = q.dim(1) * k.dim(1);
  const AttentionOptions options{scale_of(q.dim(2) / heads), mask, slopes, {}};
  std::vector<float> weights(static_cast<std::size_t>(B * each));
  for (std::int64_t b = 0; b < B; ++b)
    attention_weights(
        std::span(weights).subspan(static_cast<std::size_t>(b * each), static_cast<std::size_t>(each)),
        q.value().split_last(heads), k.value().split_last(key_heads), options, b, head);
  return weights;
}

}  // namespace quern
