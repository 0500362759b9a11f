// The attention kernels of a level. Plain types only.
#pragma once

#include <stdint.h>

#include "dropout_level.hpp"

namespace quern::kernels {

constexpr int64_t attention_tile = 64;        // queries, and keys, of a tile
constexpr int64_t attention_pass = 4;         // tiles of queries that go over the keys together in backward
constexpr int64_t attention_max_width = 256;  // the largest D, max_head_width
constexpr int64_t attention_few_queries = 4;  // that many, without dropout, are cheaper one by one

/// `count` neighbouring query heads that read the same keys and values together, so that each is read once;
/// only for few queries. Strides in elements between these heads.
struct AttentionGroup {
  int64_t count, q_stride, out_stride, lse_stride;
  const float* slopes;  // of these heads, each of the bias slope * (key - offset - query); null: none
};

/// One head of one sequence: row t of q lies at q + t * q_stride, and so on.
struct AttentionHead {
  const void *q, *k, *v;  // floats, or bfloat16 when `half`; so are out and all their gradients
  bool half;
  int64_t q_stride, k_stride, v_stride;
  int64_t queries, keys, width;  // T, S, D
  int64_t visible;               // keys at or beyond are hidden from every query
  // As in AttentionMask.
  bool causal;
  int64_t offset, window, globals, gap;
  const int32_t* starts;  // (T); null: all 0
  float scale;
  const float* additive;  // (D), for each head of the group: the vector of additive scores; null: products
  AttentionGroup group;
  DropoutKey dropout;  // its row 0 is query 0
};

struct AttentionOutput {
  void* out;
  int64_t stride;
  float* lse;  // (T)
};

/// to = gradient + beta * to, row by row; `to` is null when nobody wants it.
struct AttentionSink {
  void* to;
  int64_t stride;
  float beta;
};

struct AttentionGradient {
  const void *dout, *out;
  const float* lse;
  int64_t dout_stride, out_stride;
  AttentionSink dq, dk, dv;
  /// Query heads that share a key head come one after the other with the same scratch, which holds the sums
  /// of dk and dv: the first sets it up, the last writes them.
  bool first, last;
  float* dadditive;  // (D); null: nobody wants it
};

/// The floats that attention_backward_head needs: sums and copies of keys and values, tiles of both kinds.
constexpr int64_t attention_head_scratch(int64_t keys, int64_t width) {
  const int64_t row = (width + 31) / 32 * 32, rows = (keys + 2 * attention_tile) / 32 * 32;
  return 4 * rows * row + (5 * attention_pass + 1) * attention_tile * row + 16 * row +
         5 * attention_tile * attention_tile;
}

}  // namespace quern::kernels

// Queries [begin, end), at most a tile of them; one whole query head.
#define QUERN_LEVEL_ATTENTION_KERNELS(X)                                                \
  X(attention_forward_tile,                                                             \
    (const AttentionHead& head, const AttentionOutput& to, int64_t begin, int64_t end)) \
  X(attention_backward_head, (const AttentionHead& head, const AttentionGradient& gradient, float* scratch))
