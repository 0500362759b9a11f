#include "quern/kernels/linear_attention.hpp"

#include "heads.hpp"
#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

/// The products with the running sums: one a query and one a key forward; two a query and three a key
/// backward. FAVOR+'s features are a product a query and a key, made twice again in backward and gone back
/// through once. What is done inside a chunk is left out.  q (B,T,C), k (B,S,K)
OpCost linear_attention_cost(const Tensor& q, const Tensor& k, std::int64_t M, bool favor,
                             std::size_t scratch) {
  const double by_queries = 2.0 * static_cast<double>(q.size() * M),
               by_keys = 2.0 * static_cast<double>(k.size() * M);
  const double features = favor ? by_queries + by_keys : 0;
  const double queries = static_cast<double>(q.bytes()), keys = static_cast<double>(k.bytes());
  return {{by_queries + by_keys + features, 2 * queries + 2 * keys},
          {2 * by_queries + 3 * by_keys + 3 * features, 3 * queries + 4 * keys},
          {bytes_of_floats(scratch)}};
}

}  // namespace

Var linear_attention(Tape& tape, Var q, Var k, Var v, Var directions, std::int64_t heads,
                     std::int64_t key_heads, bool causal, const std::int32_t* lengths,
                     const LinearAttentionState& state) {
  check_heads(q, k, v, heads, key_heads);
  const std::int64_t B = q.dim(0), T = q.dim(1), C = q.dim(2), D = C / heads;
  QUERN_CHECK(!directions || (directions.dim(1) == D && !directions.needs_grad()), D);
  QUERN_CHECK(state.sums == nullptr || !tape.recording());
  const std::int64_t M = directions ? directions.dim(0) : D;
  const LinearAttentionOptions options{causal, lengths, directions.floats(), directions ? M : 0};
  const Var out = tape.make({B, T, C}, q.shape().type);  // (B,T,C)
  float* den = tape.statistics(B * heads * T);           // (B,H,T)
  const auto by_query = [heads](const Tensor& x) { return x.split_last(heads); };
  const auto by_key = [key_heads](const Tensor& x) { return x.split_last(key_heads); };
  const std::size_t size = linear_attention_scratch(by_query(q.shape()), by_key(k.shape()), options);
  const Scratch scratch(tape, size);
  const OpCost cost = linear_attention_cost(q.shape(), k.shape(), M, static_cast<bool>(directions), size);
  if (const Running run = tape.run("linear_attention", cost))
    linear_attention_forward(by_query(out.value()), den, by_query(q.value()), by_key(k.value()),
                             by_key(v.value()), options, state, scratch.span());
  tape.record("linear_attention", {q, k, v}, {out},
              [q = tape.keep(q), k = tape.keep(k), v = tape.keep(v), out, den, heads, key_heads, options,
               size, by_query, by_key](Tape& t) {
                const Sink dq = by_head(t.sink(q), heads), dk = by_head(t.sink(k), key_heads),
                           dv = by_head(t.sink(v), key_heads);
                const Scratch room(t, size);
                linear_attention_backward(dq, dk, dv, by_query(t.grad(out)), den, by_query(t.value(q)),
                                          by_key(t.value(k)), by_key(v.value()), options, room.span());
              });
  return out;
}

}  // namespace quern
