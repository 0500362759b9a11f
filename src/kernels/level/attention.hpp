// What attention's forward and backward share: the mask and dropout on a block of scores. Included only by
// src/kernels/level/*.cpp.
//
// In these files queries lie in the lanes of vectors, a panel of them at a time, and keys in the rows of a
// block. So the softmax over keys has no sums across lanes, keys and values are read as they lie (each number
// is broadcast), and only queries, outputs and their gradients are transposed, once a tile. Scores are in
// base 2: log2(e) goes into q.
#pragma once

#include "../attention_level.hpp"
#include "dropout.hpp"
#include "simd.hpp"
#include "tile.hpp"

namespace quern::kernels::QUERN_LEVEL {

constexpr int64_t tile = attention_tile;
constexpr float log2_e = 1.44269504f;

/// Rows whose type the head tells: T is float, or uint16_t for bfloat16.
template <class T>
QUERN_INLINE const T* as(const void* p) {
  return static_cast<const T*>(p);
}

QUERN_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
QUERN_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// The end of the span of keys that query t sees.
QUERN_INLINE int64_t span_end(const AttentionHead& head, int64_t t) {
  return head.causal ? smaller(head.visible, head.offset + t + 1) : head.visible;
}

/// Its beginning, which the end may precede.
QUERN_INLINE int64_t span_begin(const AttentionHead& head, int64_t t) {
  return head.window > 0 ? larger(0, head.offset + t + 1 - head.window) : 0;
}

/// Where reading begins for the queries from t on: dropout counts keys in eights.
QUERN_INLINE int64_t first_key(const AttentionHead& head, int64_t t) { return span_begin(head, t) / 8 * 8; }

QUERN_INLINE vi lane_numbers() {
  vi lane = {};
  for (int i = 0; i < lanes; ++i) lane[i] = i;
  return lane;
}

QUERN_INLINE void zero(float* to, int64_t n) {
  __builtin_memset(to, 0, static_cast<unsigned long>(n) * sizeof(float));
}

/// Copies the keys and values [begin, begin + count); the first `hidden` of them, which nobody sees but a
/// product may meet, are zeros.
template <class T>
QUERN_INLINE void load_keys(float* k, float* v, const AttentionHead& head, int64_t begin, int64_t count,
                            int64_t hidden) {
  const int64_t width = head.width, n = larger(0, smaller(hidden, count));
  zero(k, n * width);
  zero(v, n * width);
  const int64_t from = begin + n;
  copy_rows(k + n * width, width, as<T>(head.k) + from * head.k_stride, head.k_stride, count - n, width, 1);
  copy_rows(v + n * width, width, as<T>(head.v) + from * head.v_stride, head.v_stride, count - n, width, 1);
}

/// Hides the keys that a query of the panel does not see: score(s,t) = -inf at or beyond the span's end, and
/// before its beginning. Query `first` is in lane 0, key `begin` in row 0.
QUERN_INLINE void hide(float* score, int64_t ld, const AttentionHead& head, int64_t first, int64_t begin,
                       int64_t keys) {
  const vi lane = lane_numbers();
  const vf hidden = broadcast(-__builtin_inff());
  for (int64_t s = larger(0, span_end(head, first) - begin); s < keys; ++s)
    for (int j = 0; j < 2; ++j) {
      float* at = score + s * ld + j * lanes;
      const int64_t before =
          begin + s - head.offset - first - j * lanes;  // lanes below see nothing of this key
      const vi sees = lane >= static_cast<int32_t>(smaller(before, lanes));
      store(at, sees ? load(at) : hidden);
    }
  if (head.window == 0) return;
  const int64_t all_see_from = span_begin(head, first + panel - 1) - begin;
  for (int64_t s = 0; s < smaller(keys, all_see_from); ++s)
    for (int j = 0; j < 2; ++j) {
      float* at = score + s * ld + j * lanes;
      // Lanes at or beyond have moved past this key.
      const int64_t after = begin + s - head.offset - first - j * lanes + head.window;
      const vi sees = lane < static_cast<int32_t>(larger(smaller(after, lanes), 0));
      store(at, sees ? load(at) : hidden);
    }
}

/// ALiBi's slope of a head of the group, in base 2.
QUERN_INLINE float slope_of(const AttentionHead& head, int64_t h) {
  return head.group.slopes != nullptr ? head.group.slopes[h] * log2_e : 0;
}

/// Adds ALiBi's bias to a panel's scores; places as in hide().
QUERN_INLINE void add_bias(float* score, int64_t ld, const AttentionHead& head, int64_t first, int64_t begin,
                           int64_t keys) {
  if (head.group.slopes == nullptr) return;
  const vf lane = __builtin_convertvector(lane_numbers(), vf), slope = broadcast(slope_of(head, 0));
  for (int j = 0; j < 2; ++j)
    for (int64_t s = 0; s < keys; ++s) {
      float* at = score + s * ld + j * lanes;
      const float distance = static_cast<float>(begin + s - head.offset - first - j * lanes);
      store(at, load(at) + slope * (distance - lane));
    }
}

/// Ten rounds of Philox4x32 on the counters {block, row, step}, one in each 64-bit lane (its low half
/// counts).
QUERN_INLINE void philox(vq* c, const DropoutKey& d, vq row, uint64_t block) {
  c[0] = vq{} + block;
  c[1] = row;
  c[2] = row >> 32;
  c[3] = vq{} + static_cast<uint64_t>(d.step);
  uint32_t k0 = d.key[0], k1 = d.key[1];
  for (int round = 0; round < 10; ++round) {
    const vq p0 = multiply_low(c[0], 0xD2511F53U), p1 = multiply_low(c[2], 0xCD9E8D57U);
    c[0] = (p1 >> 32) ^ c[1] ^ static_cast<uint64_t>(k0);
    c[1] = p1;
    c[2] = (p0 >> 32) ^ c[3] ^ static_cast<uint64_t>(k1);
    c[3] = p0;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

/// The dropout factors of keys [8 * block, 8 * block + 8) for `lanes` queries from `row` on, lane by lane.
QUERN_INLINE void dropout_factors(vf* factor, const DropoutKey& d, uint64_t row, uint64_t block) {
  vq even_row = {};
  for (int i = 0; i < lanes / 2; ++i) even_row[i] = d.first_row + row + 2 * static_cast<uint64_t>(i);
  vq even[4], odd[4];
  philox(even, d, even_row, block);
  philox(odd, d, even_row + 1, block);
  const vi threshold = vi{} + static_cast<int32_t>(d.threshold), kept = (vi)broadcast(d.scale);
  for (int w = 0; w < 4; ++w) {
    const vu word = (vu)((even[w] & 0xffffffffU) | (odd[w] << 32));
    factor[2 * w] = (vf)(((vi)(word & 0xffffU) >= threshold) & kept);
    factor[2 * w + 1] = (vf)(((vi)(word >> 16) >= threshold) & kept);
  }
}

/// Calls f(at, factor) for each vector of a (keys, panel) block: `at` its place, `factor` its dropout
/// factors.
template <class F>
QUERN_INLINE void for_each_dropped(const DropoutKey& d, int64_t first, int64_t begin, int64_t keys,
                                   int64_t ld, F f) {
  for (int j = 0; j < 2; ++j)
    for (int64_t s = 0; s < keys; s += 8) {
      vf factor[8];
      dropout_factors(factor, d, static_cast<uint64_t>(first + j * lanes),
                      static_cast<uint64_t>((begin + s) / 8));
      const int64_t n = smaller(8, keys - s);
      for (int64_t i = 0; i < n; ++i) f((s + i) * ld + j * lanes, factor[i]);
    }
}

}  // namespace quern::kernels::QUERN_LEVEL
