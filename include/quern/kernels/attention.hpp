// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), for every batch b and head h:
//
//   score(t,s) = scale * sum_d q(t,d) k(s,d)              for the keys s that the mask shows to query t
//                + slope(h) * distance(t,s)               with slopes (ALiBi, Press et al. 2022, 2108.12409)
//   lse(t)     = log sum_s exp(score(t,s))
//   P(t,s)     = exp(score(t,s) - lse(t));                a hidden key: exactly 0
//   out(t,d)   = sum_s f(t,s) P(t,s) v(s,d)               f: the dropout factor of a weight, 0 or 1 / (1 -
//   rate)
//
// and with g = dout, delta(t) = sum_d g(t,d) out(t,d):
//
//   dv(s,d) = sum_t f(t,s) P(t,s) g(t,d)
//   dS(t,s) = P(t,s) (f(t,s) sum_d g(t,d) v(s,d) - delta(t))
//   dq(t,d) = scale sum_s dS(t,s) k(s,d)
//   dk(s,d) = scale sum_t dS(t,s) q(t,d)
//
// Additive scores (Bahdanau et al. 2014, 1409.0473, appendix A.1.2) take the place of the scaled products;
// all else is the same. With u(t,s,d) = tanh(q(t,d) + k(s,d)) and a vector w a head:
//
//   score(t,s) = sum_d w(h,d) u(t,s,d) + the bias
//   dq(t,d) = sum_s dS(t,s) w(h,d) (1 - u(t,s,d)^2);    dk(s,d) the same sum over t
//   dw(h,d) = sum_{b,t,s} dS(t,s) u(t,s,d)
//
// q has H heads, k and v have Hkv, which divides H: query head h reads key head h / (H / Hkv), so H / Hkv
// neighbours share one (grouped-query attention, Ainslie et al. 2023, 2305.13245; multi-query attention with
// Hkv = 1, Shazeer 2019, 1911.02150), and dk and dv are sums over them too.
//
// Scores exist only as tiles. Forward keeps a running maximum and sum (Rabe & Staats 2021, 2112.05682; Dao et
// al. 2022, 2205.14135, section 3.1) and saves one lse a row; backward makes the tiles again from it (Dao et
// al., appendix B.4). Memory is O(T). Tiles that the mask hides are never computed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quern/kernels/dropout.hpp"
#include "quern/kernels/tensor.hpp"

namespace quern {

/// The widest head, D.
constexpr std::int64_t max_head_width = 256;

/// Which keys a query sees: a span for each query, never a dense tensor, and a few keys that all see. It acts
/// before the softmax. What lies in a key or value that no query sees (a NaN, even) reaches no result and no
/// gradient.
struct AttentionMask {
  bool causal = true;       // query t sees the keys [0, offset + t]
  std::int64_t offset = 0;  // keys that precede the first query (the length of a cache)
  const std::int32_t* lengths =
      nullptr;  // (B): keys at or beyond lengths[b] in [0, S] are hidden; null: none are
  /// Of these keys only the latest `window`, offset + t itself included; without `causal` those less than
  /// `window` away on either side. 0: all.
  std::int64_t window = 0;
  /// With a window (Longformer, Beltagy et al. 2020, 2004.05150, section 3.1): the keys [0, globals) are seen
  /// from beyond it too, and without `causal` the queries there see all keys. (With `causal` a query there
  /// sees what precedes it: later keys stay hidden from it as from all.)
  std::int64_t globals = 0;
  std::int64_t gap = 0;  // keys that a cache has dropped behind the global ones: they count in distances
  /// (B,T), documents packed in a row: query t sees no key before starts[b,t], which is in [0, t] and never
  /// falls with t; null: one document. With offset 0.
  const std::int32_t* starts = nullptr;
  std::int64_t queries = 0;  // T, when there are starts

  struct Span {
    std::int64_t begin, end;
  };

  /// The keys [begin, end) that query t of sequence b sees, of S; and beside them those of [0, globals) that
  /// lie before.
  Span span(std::int64_t b, std::int64_t t, std::int64_t S) const {
    const std::int64_t place = offset + t, length = lengths ? std::min<std::int64_t>(S, lengths[b]) : S;
    const bool bounded = window > 0 && (causal || place >= globals);
    const std::int64_t reach = causal ? place + 1 : bounded ? place + window : length;
    const std::int64_t end = std::min(length, reach), start = starts ? starts[b * queries + t] : 0;
    return {std::clamp<std::int64_t>(bounded ? place + 1 - window : 0, std::min(start, end), end), end};
  }
  bool sees(std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t S) const {
    const Span keys = span(b, t, S);
    return s < keys.end && (s >= keys.begin || s < globals);
  }
  /// What lies between query t and key s, which precedes it: 0 or less.
  std::int64_t distance(std::int64_t t, std::int64_t s) const {
    return s - offset - t - (s < globals ? gap : 0);
  }
};

struct AttentionOptions {
  float scale = 1;  // 1 / sqrt(D) as a rule
  AttentionMask mask;
  const float* slopes = nullptr;  // (H): ALiBi's; null: none
  /// On the weights. `first_row` counts sequences: P(b,h,t,s) is element (((first_row + b) * H + h) * T + t,
  /// s).
  Dropout dropout;
  const float* additive = nullptr;  // (H,D): the vectors w of additive scores; null: scores are products
};

/// ALiBi's slopes for H heads: 2^(-8 (h + 1) / H) when H is a power of two; else those of the power of two P
/// below H, followed by every second one of 2 P's, from the first (Press et al. 2022, section 3 and their
/// code).
std::vector<float> alibi_slopes(std::int64_t heads);

/// out and lse from q, k, v, which are all f32 or all bf16 (and so are the gradients); scores, softmax and
/// sums are f32 in any case. (With AMX the products take bf16 weights and, in backward, bf16 gradients of
/// scores.) Any D from 1 to 256; every view has a last stride of 1, its other strides are free (q, k, v are
/// parts of one packed projection, or k and v a cache). A query that sees no key gets out = 0, lse = -inf;
/// one whose scores are all -inf gets NaN.
/// One query a sequence (decoding from a cache) takes a path of its own, equal to rounding.
void attention_forward(Tensor out,  // (B,T,H,D)
                       float* lse,  // (B,H,T)
                       Tensor q,    // (B,T,H,D)
                       Tensor k,    // (B,S,Hkv,D)
                       Tensor v,    // (B,S,Hkv,D)
                       const AttentionOptions& options);

/// P of query head h of sequence b, dropout aside, by the formulas above as they stand: in double, score by
/// score, for looking at. weights (T,S); the row of a query that sees no key is 0.
void attention_weights(std::span<float> weights, Tensor q, Tensor k, const AttentionOptions& options,
                       std::int64_t b, std::int64_t h);

/// The gradients that are wanted (each sink may be empty), from what forward was given and wrote. A query
/// that sees no key gives none: its dq is 0, and so are dk and dv of a key that nobody sees. Parallel over
/// the B * Hkv key heads; each task owns its head's dk and dv and its queries' dq.
void attention_backward(Sink dq,           // (B,T,H,D)
                        Sink dk,           // (B,S,Hkv,D)
                        Sink dv,           // (B,S,Hkv,D)
                        Tensor dout,       // (B,T,H,D)
                        Tensor out,        // (B,T,H,D)
                        const float* lse,  // (B,H,T)
                        Tensor q,          // (B,T,H,D)
                        Tensor k,          // (B,S,Hkv,D)
                        Tensor v,          // (B,S,Hkv,D)
                        const AttentionOptions& options, std::span<float> scratch,
                        Sink dadditive = {});  // (H,D)

/// How many floats attention_backward needs as scratch: O((S + tile) * D) for each thread of thread_count()
/// now; H counts the key heads, additive_heads the query heads with additive scores.
std::size_t attention_backward_scratch(std::int64_t B, std::int64_t T, std::int64_t S, std::int64_t H,
                                       std::int64_t D, std::int64_t additive_heads = 0);

}  // namespace quern
