// The linear attention kernels of a level. Plain types only.
#pragma once

#include <stdint.h>

#include "attention_level.hpp"

namespace quern::kernels {

constexpr int64_t linear_tile = 64;  // the tokens of a chunk

/// One head of keys of one sequence, and the `group` neighbouring heads of queries that read it. Row t of
/// the group's head g of q lies at q + g * q_head + t * q_stride, and so on.
struct LinearAttentionHead {
  const void *q, *k, *v;  // floats, or bfloat16 when `half`; so are out and all gradients
  bool half;
  int64_t q_stride, q_head, k_stride, v_stride;
  int64_t group, queries, keys, width;  // T, S, D
  int64_t visible;                      // keys at or beyond are hidden
  bool causal;
  const float* directions;  // (M,D); null: elu
  int64_t features;         // M
  int64_t padded;           // D rounded up to a multiple of 16
};

struct LinearAttentionOutput {
  void* out;
  int64_t stride, head;  // between rows, between heads of the group
  float* den;            // (group,T)
  float* state;          // linear_state_size floats; null: none
  bool fresh;            // the state is only written
};

struct LinearAttentionGradient {
  const void* dout;
  int64_t dout_stride, dout_head;
  const float* den;  // (group,T)
  AttentionSink dq, dk, dv;
  int64_t dq_head;
};

/// S (M,padded D), z (M) and the largest exponent.
constexpr int64_t linear_state_size(int64_t features, int64_t padded) { return features * (padded + 1) + 1; }

/// The floats that either kernel needs; `queries` of all heads of the group.
constexpr int64_t linear_scratch(int64_t queries, int64_t keys, int64_t features, int64_t padded) {
  return linear_state_size(features, padded) + linear_tile * (3 * features + 7 * padded + 2 * linear_tile) +
         queries + keys / linear_tile + 1;
}

}  // namespace quern::kernels

#define QUERN_LEVEL_LINEAR_ATTENTION_KERNELS(X)                                         \
  X(linear_attention_head,                                                              \
    (const LinearAttentionHead& head, const LinearAttentionOutput& to, float* scratch)) \
  X(linear_attention_backward_head,                                                     \
    (const LinearAttentionHead& head, const LinearAttentionGradient& gradient, float* scratch))
