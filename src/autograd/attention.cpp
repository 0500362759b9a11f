#include "quern/kernels/attention.hpp"

#include <cmath>

#include "heads.hpp"
#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern {
namespace {

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
/// and writes the output; backward reads these and dout and writes dq, dk and dv. Additive scores count as
/// products do.  q (B,T,C), k (B,S,K)
OpCost attention_cost(const Tensor& q, const Tensor& k, std::int64_t heads, std::int64_t key_heads,
                      const AttentionOptions& options) {
  const std::int64_t B = q.dim[0], T = q.dim[1], S = k.dim[1], C = q.dim[2];
  const double product = 2 * static_cast<double>(C) * visible_pairs(options.mask, B, T, S);
  const double queries = static_cast<double>(q.bytes()), keys = static_cast<double>(k.bytes());
  return {{2 * product, 2 * queries + 2 * keys},
          {5 * product, 4 * queries + 4 * keys},
          {bytes_of_floats(attention_backward_scratch(B, T, S, key_heads, C / heads,
                                                      options.additive != nullptr ? heads : 0))}};
}

/// attention() and additive_attention(), whose vectors are w (H,D), or none.
Var attend(Tape& tape, Var q, Var k, Var v, Var w, std::int64_t heads, std::int64_t key_heads,
           AttentionOptions options) {
  check_heads(q, k, v, heads, key_heads);
  const std::int64_t B = q.dim(0), T = q.dim(1), C = q.dim(2);
  QUERN_CHECK(!w || w.shape().size() == C, C);
  const Var out = tape.make({B, T, C}, q.shape().type);  // (B,T,C)
  float* lse = tape.statistics(B * heads * T);           // (B,H,T)
  const auto by_query = [heads](const Tensor& x) { return x.split_last(heads); };
  const auto by_key = [key_heads](const Tensor& x) { return x.split_last(key_heads); };
  const char* name = w ? "additive_attention" : "attention";
  options.additive = w.floats();
  if (const Running run = tape.run(name, attention_cost(q.shape(), k.shape(), heads, key_heads, options)))
    attention_forward(by_query(out.value()), lse, by_query(q.value()), by_key(k.value()), by_key(v.value()),
                      options);
  tape.record(name, {q, k, v, w}, {out},
              [q = tape.keep(q), k = tape.keep(k), v = tape.keep(v), w, out = tape.keep(out), lse, heads,
               key_heads, options, by_query, by_key](Tape& t) {
                const Sink dq = by_head(t.sink(q), heads), dk = by_head(t.sink(k), key_heads),
                           dv = by_head(t.sink(v), key_heads);
                const Scratch scratch(t, attention_backward_scratch(q.dim(0), q.dim(1), k.dim(1), key_heads,
                                                                    q.dim(2) / heads, w ? heads : 0));
                attention_backward(dq, dk, dv, by_query(t.grad(out)), by_query(out.value()), lse,
                                   by_query(t.value(q)), by_key(t.value(k)), by_key(v.value()), options,
                                   scratch.span(), t.sink(w));
              });
  return out;
}

/// A product a head; two backward.  x (B,T,H*D), w (H*D,E), y (B,T,H*E)
OpCost head_products_cost(const Tensor& x, const Tensor& w, const Tensor& y) {
  const double flops = 2 * static_cast<double>(x.rows() * w.size());
  const double numbers = static_cast<double>(x.bytes() + w.size() * size_of(y.type) + y.bytes());
  return {{flops, numbers}, {2 * flops, 2 * numbers}};
}

/// The columns of head h as a matrix.
Mat head_of(const Tensor& x, std::int64_t heads, std::int64_t h) {
  return x.columns(h * (x.last() / heads), x.last() / heads).mat();
}

}  // namespace

float attention_scale(std::int64_t width) { return 1 / std::sqrt(static_cast<float>(width)); }

Var attention(Tape& tape, Var q, Var k, Var v, std::int64_t heads, std::int64_t key_heads, float scale,
              const AttentionMask& mask, DropoutSite dropout, const float* slopes) {
  return attend(tape, q, k, v, Var(), heads, key_heads,
                {scale, mask, slopes, tape.dropout(dropout.site, dropout.rate, 1), nullptr});
}

Var additive_attention(Tape& tape, Var q, Var k, Var v, Var w, std::int64_t heads, std::int64_t key_heads,
                       const AttentionMask& mask, DropoutSite dropout, const float* slopes) {
  QUERN_CHECK(static_cast<bool>(w));
  return attend(tape, q, k, v, w, heads, key_heads,
                {1, mask, slopes, tape.dropout(dropout.site, dropout.rate, 1), nullptr});
}

Var head_products(Tape& tape, Var x, Var w, std::int64_t heads) {
  const std::int64_t D = x.dim(2) / heads, E = w.dim(1);
  QUERN_CHECK(x.shape().rank == 3 && w.dim(0) == heads * D && x.dim(2) == heads * D, x.dim(2), w.dim(0),
              heads);
  const Var y = tape.make({x.dim(0), x.dim(1), heads * E}, w.operand().type);  // (B,T,H*E)
  if (const Running run = tape.run("head_products", head_products_cost(x.shape(), w.shape(), y.shape())))
    for (std::int64_t h = 0; h < heads; ++h)
      gemm(head_of(y.value(), heads, h), head_of(x.value(), heads, h), w.operand().mat().row_range(h * D, D));
  tape.record("head_products", {x, w}, {y}, [x = tape.keep(x), w, y, heads, D](Tape& t) {
    const Tensor dy = t.grad(y), value = t.value(x);
    const Sink dx = t.sink(x), dw = t.sink(w);
    for (std::int64_t h = 0; h < heads; ++h) {
      const Mat dy_h = head_of(dy, heads, h);
      if (dw) gemm(dw.to.mat().row_range(h * D, D), head_of(value, heads, h).t(), dy_h, {.beta = dw.beta});
      if (dx)
        gemm(head_of(dx.to, heads, h), dy_h, w.operand().mat().row_range(h * D, D).t(), {.beta = dx.beta});
    }
  });
  return y;
}

std::vector<float> attention_weights(Var q, Var k, Var w, std::int64_t heads, std::int64_t key_heads,
                                     float scale, const AttentionMask& mask, const float* slopes,
                                     std::int64_t head) {
  const std::int64_t B = q.dim(0), each = q.dim(1) * k.dim(1);
  const AttentionOptions options{scale, mask, slopes, {}, w.floats()};
  std::vector<float> weights(static_cast<std::size_t>(B * each));
  for (std::int64_t b = 0; b < B; ++b)
    attention_weights(
        std::span(weights).subspan(static_cast<std::size_t>(b * each), static_cast<std::size_t>(each)),
        q.value().split_last(heads), k.value().split_last(key_heads), options, b, head);
  return weights;
}

std::vector<float> linear_attention_weights(Tape& tape, Var q, Var k, Var directions, std::int64_t heads,
                                            std::int64_t key_heads, bool causal, std::int64_t head) {
  const std::int64_t B = q.dim(0), T = q.dim(1), S = k.dim(1), D = q.dim(2) / heads;
  const std::int64_t key_head = head / (heads / key_heads);
  std::vector<float> weights(static_cast<std::size_t>(B * T * S));
  for (std::int64_t first = 0; first < S; first += D) {
    const Var v = tape.make({B, S, k.dim(2)});  // key first + d has the unit vector d for its value
    fill(v.value(), 0);
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t d = 0; d < std::min(D, S - first); ++d)
        v.value().f32()[(b * S + first + d) * k.dim(2) + key_head * D + d] = 1;
    const Tensor out =
        linear_attention(tape, q, k, v, directions, heads, key_heads, causal).value().split_last(heads);
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t t = 0; t < T; ++t)
        for (std::int64_t d = 0; d < std::min(D, S - first); ++d)
          weights[static_cast<std::size_t>((b * T + t) * S + first + d)] =
              out.f32()[b * out.stride[0] + t * out.stride[1] + head * out.stride[2] + d];
  }
  return weights;
}

}  // namespace quern
