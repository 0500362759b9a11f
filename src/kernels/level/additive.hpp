// Additive scores on attention's tiles. Included only by src/kernels/level/*.cpp.
#pragma once

#include "attention.hpp"
#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {

/// What queries are multiplied by as they are packed: scores come out in base 2.
QUERN_INLINE float query_scale(const AttentionHead& head) {
  return head.additive != nullptr ? 1 : head.scale * log2_e;
}

/// score(s, t) = log2(e) sum_d w(d) tanh(k(s, d) + q(d, t)).
static inline void additive_scores(float* score, int64_t ld, const AttentionHead& head, const float* k,
                                   const float* q, int64_t keys) {
  for (int64_t s = 0; s < keys; ++s, k += head.width) {
    vf first = {}, second = {};
    for (int64_t d = 0; d < head.width; ++d) {
      const float* at = q + d * panel;
      first += head.additive[d] * tanh(load(at) + k[d]);
      second += head.additive[d] * tanh(load(at + lanes) + k[d]);
    }
    store(score + s * ld, first * log2_e);
    store(score + s * ld + lanes, second * log2_e);
  }
}

/// The scores of a panel of queries, packed as columns, with some keys, before bias and mask.
QUERN_INLINE void panel_scores(float* score, int64_t ld, const AttentionHead& head, const float* k,
                               const float* q, int64_t keys) {
  if (head.additive != nullptr) return additive_scores(score, ld, head, k, q, keys);
  product<2>(score, ld, keys, {k, head.width, 1}, q, panel, head.width, nullptr);
}

/// The scores of one query of the group's head h; q holds zeros beyond its width.
template <class T>
static inline void additive_row_scores(float* score, const AttentionHead& head, int64_t h, const float* q,
                                       const T* k, int64_t keys) {
  const int64_t width = head.width;
  const float* w = head.additive + h * width;
  for (int64_t s = 0; s < keys; ++s, k += head.k_stride) {
    vf total = {};
    int64_t d = 0;
    for (; d + lanes <= width; d += lanes) total += load(w + d) * tanh(load(q + d) + load(k + d));
    if (d < width) total += load_part(w + d, width - d) * tanh(load(q + d) + load_part(k + d, width - d));
    score[s] = sum(total) * log2_e;
  }
}

/// Where the gradients behind additive scores add up: those of a panel's queries as columns, of keys as rows
/// of `padded` numbers, and of w, lane by lane, (D, lanes).
struct AdditiveSums {
  float *dq, *dk, *dw;
  int64_t padded;
};

/// The part of a panel of queries and some keys, from the gradients of their scores.
static inline void additive_gradients(const AdditiveSums& to, const AttentionHead& head, const float* dscore,
                                      int64_t ld, const float* k, const float* q, int64_t keys) {
  const auto add = [](float* at, vf x) QUERN_LAMBDA { store(at, load(at) + x); };
  for (int64_t s = 0; s < keys; ++s)
    for (int64_t begin = 0; begin < head.width; begin += lanes) {
      const vf g[2] = {load(dscore + s * ld), load(dscore + s * ld + lanes)};
      vf over_queries[lanes] = {};
      const int64_t n = smaller(lanes, head.width - begin);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t d = begin + i;
        vf dw = {};
        for (int j = 0; j < 2; ++j) {
          const vf t = tanh(load(q + d * panel + j * lanes) + k[s * head.width + d]);
          const vf through = g[j] * head.additive[d] * (1.0f - t * t);
          add(to.dq + d * panel + j * lanes, through);
          over_queries[i] += through;
          dw += g[j] * t;
        }
        add(to.dw + d * lanes, dw);
      }
      add(to.dk + s * to.padded + begin, sums_of(over_queries));
    }
}

}  // namespace quern::kernels::QUERN_LEVEL
