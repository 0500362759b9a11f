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

/// Whether query t is a global one that sees every key.
QUERN_INLINE bool sees_all(const AttentionHead& head, int64_t t) {
  return !head.causal && head.offset + t < head.globals;
}

/// The end of the span of keys that query t sees.
QUERN_INLINE int64_t span_end(const AttentionHead& head, int64_t t) {
  if (head.causal) return smaller(head.visible, head.offset + t + 1);
  if (head.window == 0 || sees_all(head, t)) return head.visible;
  return smaller(head.visible, head.offset + t + head.window);
}

/// Its beginning, which the end may precede, and which never falls with t.
QUERN_INLINE int64_t span_begin(const AttentionHead& head, int64_t t) {
  const int64_t start = head.starts != nullptr ? head.starts[t] : 0;
  if (head.window == 0 || sees_all(head, t)) return start;
  return larger(start, head.offset + t + 1 - head.window);
}

/// Where reading begins for the queries from t on, but for global keys: dropout counts keys in eights.
QUERN_INLINE int64_t first_key(const AttentionHead& head, int64_t t) { return span_begin(head, t) / 8 * 8; }

/// The end of what the queries [first, last] see; only global queries see more than the last.
QUERN_INLINE int64_t last_key(const AttentionHead& head, int64_t first, int64_t last) {
  return sees_all(head, first) ? head.visible : span_end(head, last);
}

/// Where reading goes on at key s for the queries from t on: behind the global keys it skips what none of
/// them sees.
QUERN_INLINE int64_t next_key(const AttentionHead& head, int64_t t, int64_t s) {
  return s < head.globals ? s : larger(s, first_key(head, t));
}

/// How many of the keys [s, end), and of `most`, the queries from t on read together.
QUERN_INLINE int64_t tile_keys(const AttentionHead& head, int64_t t, int64_t s, int64_t most, int64_t end) {
  const bool skips = s < head.globals && head.globals < first_key(head, t);
  return smaller(most, (skips ? smaller(head.globals, end) : end) - s);
}

/// Of a tile of keys from s on: the first that a panel of queries from `first` on reads.
QUERN_INLINE int64_t panel_from(const AttentionHead& head, int64_t first, int64_t s) {
  return s < head.globals ? 0 : larger(0, first_key(head, first) - s);
}

QUERN_INLINE vi lane_numbers() {
  vi lane = {};
  for (int i = 0; i < lanes; ++i) lane[i] = i;
  return lane;
}

template <class T>
QUERN_INLINE void zero(T* to, int64_t n) {
  __builtin_memset(to, 0, static_cast<unsigned long>(n) * sizeof(T));
}

/// Copies the keys and values [begin, begin + count) to rows of `ld` numbers, floats or bfloat16. Those in
/// front of the span of query `first` that are not global, which nobody sees but a product may meet, are
/// zeros; numbers of a row beyond D stay as they are.
template <class T, class To>
QUERN_INLINE void load_keys(To* k, To* v, int64_t ld, const AttentionHead& head, int64_t begin, int64_t count,
                            int64_t first) {
  const int64_t global = larger(0, smaller(count, head.globals - begin));
  const int64_t from = larger(global, smaller(count, span_begin(head, first) - begin));
  for (int64_t s = global; s < from; ++s) {
    zero(k + s * ld, head.width);
    zero(v + s * ld, head.width);
  }
  const auto copy = [&](int64_t at, int64_t n) QUERN_LAMBDA {
    const int64_t s = begin + at;
    copy_rows(k + at * ld, ld, as<T>(head.k) + s * head.k_stride, head.k_stride, n, head.width, 1);
    copy_rows(v + at * ld, ld, as<T>(head.v) + s * head.v_stride, head.v_stride, n, head.width, 1);
  };
  copy(0, global);
  copy(from, count - from);
}

/// The spans of the queries in `lanes` lanes, from `first` on; those beyond the last are of no consequence.
QUERN_INLINE vi span_ends(const AttentionHead& head, int64_t first) {
  const vi place = lane_numbers() + static_cast<int32_t>(head.offset + first);
  const vi visible = vi{} + static_cast<int32_t>(head.visible);
  const vi reach = place + static_cast<int32_t>(head.causal ? 1 : head.window);
  const vi end = reach < visible ? reach : visible;
  return head.causal ? end : place < static_cast<int32_t>(head.globals) ? visible : end;
}
QUERN_INLINE vi span_begins(const AttentionHead& head, int64_t first) {
  vi begin = {};
  if (head.window > 0) begin = lane_numbers() + static_cast<int32_t>(head.offset + first + 1 - head.window);
  if (sees_all(head, first)) {
    const vi place = lane_numbers() + static_cast<int32_t>(head.offset + first);
    begin = place < static_cast<int32_t>(head.globals) ? vi{} : begin;
  }
  if (head.starts != nullptr)
    for (int i = 0; i < lanes; ++i) {
      const int32_t start = head.starts[smaller(first + i, head.queries - 1)];
      if (begin[i] < start) begin[i] = start;
    }
  return begin;
}

/// Hides the keys that a query of the panel does not see: score(s,t) = -inf at or beyond the span's end, and
/// before its beginning but for global keys. Query `first` is in lane 0, key `begin` in row 0.
QUERN_INLINE void hide(float* score, int64_t ld, const AttentionHead& head, int64_t first, int64_t begin,
                       int64_t keys) {
  const vf hidden = broadcast(-__builtin_inff());
  const int64_t last = smaller(first + panel, head.queries) - 1;
  // Without `causal` the first query behind the global ones sees least.
  const int64_t least = head.causal ? first : larger(first, smaller(last, head.globals - head.offset));
  const int64_t end_of_all = larger(0, span_end(head, least) - begin);
  if (end_of_all < keys)
    for (int j = 0; j < 2; ++j) {
      const vi end = span_ends(head, first + j * lanes);
      for (int64_t s = end_of_all; s < keys; ++s) {
        float* at = score + s * ld + j * lanes;
        store(at, end > static_cast<int32_t>(begin + s) ? load(at) : hidden);
      }
    }
  const int64_t local = larger(0, head.globals - begin);
  const int64_t all_see_from = smaller(keys, span_begin(head, last) - begin);
  if (local < all_see_from)
    for (int j = 0; j < 2; ++j) {
      const vi from = span_begins(head, first + j * lanes);
      for (int64_t s = local; s < all_see_from; ++s) {
        float* at = score + s * ld + j * lanes;
        store(at, from <= static_cast<int32_t>(begin + s) ? load(at) : hidden);
      }
    }
}

/// ALiBi's slope of a head of the group, in base 2.
QUERN_INLINE float slope_of(const AttentionHead& head, int64_t h) {
  return head.group.slopes != nullptr ? head.group.slopes[h] * log2_e : 0;
}

/// From query t back to key s, as AttentionMask::distance.
QUERN_INLINE int64_t distance_of(const AttentionHead& head, int64_t t, int64_t s) {
  return s - head.offset - t - (s < head.globals ? head.gap : 0);
}

/// Adds ALiBi's bias to a panel's scores; places as in hide().
QUERN_INLINE void add_bias(float* score, int64_t ld, const AttentionHead& head, int64_t first, int64_t begin,
                           int64_t keys) {
  if (head.group.slopes == nullptr) return;
  const vf lane = __builtin_convertvector(lane_numbers(), vf), slope = broadcast(slope_of(head, 0));
  for (int j = 0; j < 2; ++j)
    for (int64_t s = 0; s < keys; ++s) {
      float* at = score + s * ld + j * lanes;
      const float distance = static_cast<float>(distance_of(head, first + j * lanes, begin + s));
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
