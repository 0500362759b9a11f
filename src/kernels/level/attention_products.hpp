// The products of attention, which its loops take as a policy: by vectors of floats for any type of input, or
// for bfloat16 by AMX. Loops, masks, softmax and dropout are the same for both. Included only by
// src/kernels/level/attention*.cpp.
#pragma once

#include "additive.hpp"

#if defined(QUERN_AMX)
#include "amx.hpp"
#endif

namespace quern::kernels::QUERN_LEVEL {
namespace {

// Numbers of a tile of keys: 64 rows of 64; wider heads get fewer rows a tile. And of a tile of queries, of
// which there is at least a panel. All of a task's tiles together take some 160 KB of stack.
constexpr int64_t rows_size = 64 * tile;
constexpr int64_t columns_size =
    rows_size > attention_max_width* panel ? rows_size : attention_max_width* panel;

/// Forward's operands, of at most columns_size / padded(D) queries.
template <class T>
struct VectorForward {
  using Number = T;
  static int64_t padded(int64_t width) { return width; }

  const AttentionHead& head;
  int64_t width = head.width, size = width * panel;
  int64_t most_keys = larger(8, smaller(tile, rows_size / width / 8 * 8));
  // Queries, and what they will get, as columns: (panels, D, panel). Keys and values: (keys, D).
  alignas(64) float q[columns_size], out[columns_size], k[rows_size], v[rows_size];

  explicit VectorForward(const AttentionHead& h) : head(h) {}

  /// Panel p becomes the queries [first, end), as far as they fit.
  void load_queries(int64_t p, int64_t first, int64_t end) {
    pack_columns(q + p * size, as<T>(head.q) + first * head.q_stride, head.q_stride, end - first, width,
                 query_scale(head));
  }
  /// The keys [begin, begin + count), at most `most_keys`, for the queries from `first` on.
  void load_tile(int64_t begin, int64_t count, int64_t first) {
    load_keys<T>(k, v, width, head, begin, count, first);
  }
  /// score(s,t) in base 2 of the keys [from, from + keys) of those and panel p.
  void scores(float* score, int64_t p, int64_t from, int64_t keys) {
    panel_scores(score, panel, head, k + from * width, q + p * size, keys);
  }
  /// out(d,t) = keep(t) out(d,t) + sum_s weight(s,t) v(s,d) over the same; without `keep`, out is only
  /// written.
  void add_values(int64_t p, int64_t from, int64_t keys, const float* weight, const float* keep) {
    product<2>(out + p * size, panel, width, {v + from * width, 1, width}, weight, panel, keys, keep);
  }
};

/// Backward's operands. Its memory comes from `cut(n)`, which gives n floats.
template <class T>
struct VectorBackward {
  using Number = T;
  static int64_t padded(int64_t width) { return (width + lanes - 1) / lanes * lanes; }
  static int64_t columns(int64_t width) { return width; }

  const AttentionHead& head;
  int64_t width = head.width, row = padded(width);
  // Of each tile of a pass, of which one is chosen.
  float *q, *dout;            // (panels, D, panel): columns
  float *q_rows, *dout_rows;  // (tile, padded D)
  int64_t chosen = 0;         // its place in all four
  float *k, *v;               // (S, D): strides between the rows of a packed projection defeat caches
  float* dw;                  // (D, lanes): of additive scores' vector
  float ones[panel];

  template <class Cut>
  VectorBackward(const AttentionHead& h, Cut cut) : head(h) {
    const int64_t pass = attention_pass * tile * row;
    q = cut(pass), dout = cut(pass), q_rows = cut(pass), dout_rows = cut(pass);
    k = cut(head.keys * row), v = cut(head.keys * row);
    dw = cut(lanes * row);
    if (head.additive != nullptr) zero(dw, lanes * row);
    for (float& one : ones) one = 1;
  }

  /// All keys below `end`: for the query heads that share them, once.
  void load_all(int64_t end) {
    zero(q_rows, 2 * attention_pass * tile * row);  // both rows' padding of D
    load_keys<T>(k, v, width, head, 0, end, 0);
  }
  /// What follows is about the pass's tile i of queries.
  void choose(int64_t i) { chosen = i * tile * row; }
  /// `count` queries and the gradients of their outputs.
  void load_queries(const T* from_q, const T* from_dout, int64_t dout_stride, int64_t count) {
    for (int64_t i = 0; i < count; i += panel) {
      pack_columns(q + chosen + i * width, from_q + i * head.q_stride, head.q_stride, count - i, width,
                   query_scale(head));
      pack_columns(dout + chosen + i * width, from_dout + i * dout_stride, dout_stride, count - i, width, 1);
    }
    copy_rows(q_rows + chosen, row, from_q, head.q_stride, count, width, 1);
    copy_rows(dout_rows + chosen, row, from_dout, dout_stride, count, width, 1);
  }
  /// score(s,t) in base 2 and dweight(s,t) = sum_d v(s,d) dout(t,d) of keys from `begin` on and the panel at
  /// column `at` of the tile.
  void scores(float* score, float* dweight, int64_t at, int64_t begin, int64_t keys) {
    panel_scores(score, tile, head, k + begin * width, q + chosen + at * width, keys);
    product<2>(dweight, tile, keys, {v + begin * width, width, 1}, dout + chosen + at * width, panel, width,
               nullptr);
  }
  /// dq(d,t) = or += sum_s k(s,d) dscore(s,t) over the same. Behind additive scores dk, which begins with
  /// these keys, and dw get their parts at once.
  void add_queries(float* dq, float* dk, const float* dscore, int64_t at, int64_t begin, int64_t keys,
                   bool adds) {
    if (head.additive == nullptr)
      return product<2>(dq, panel, width, {k + begin * width, 1, width}, dscore, tile, keys,
                        adds ? ones : nullptr);
    if (!adds) zero(dq, panel * width);
    additive_gradients({dq, dk, dw, row}, head, dscore, tile, k + begin * width, q + chosen + at * width,
                       keys);
  }
  /// The tile's weights and gradients of scores, of `keys` keys and `queries` queries, are complete.
  void tile_done(const float*, const float*, int64_t, int64_t) {}
  /// dv(s,d) += sum_t weight(s,t) dout(t,d) and dk(s,d) += sum_t dscore(s,t) q(t,d): of the keys [s, s + n)
  /// of the tile and its queries [t, end).
  void add_dv(float* dv, const float* weight, int64_t s, int64_t n, int64_t t, int64_t end) {
    add_rows(dv, weight, dout_rows + chosen, s, n, t, end);
  }
  void add_dk(float* dk, const float* dscore, int64_t s, int64_t n, int64_t t, int64_t end) {
    if (head.additive == nullptr) add_rows(dk, dscore, q_rows + chosen, s, n, t, end);
  }

 private:
  void add_rows(float* to, const float* a, const float* rows, int64_t s, int64_t n, int64_t t, int64_t end) {
    wide_product(to + s * row, row, n, {a + s * tile + t, tile, 1}, rows + t * row, row, row, end - t, true);
  }
};

#if defined(QUERN_AMX)

/// The same by AMX. Sums are f32, as there; what a product takes of the weights and of the scores' gradients
/// is rounded to bfloat16. D is padded to a multiple of 32 by zeros.
struct AmxForward {
  using Number = uint16_t;
  static int64_t padded(int64_t width) { return whole_depth(width); }

  const AttentionHead& head;
  int64_t width = padded(head.width), size = width * panel;
  int64_t most_keys = larger(amx_rows, smaller(tile, rows_size / width / amx_rows * amx_rows));
  int64_t values_row = whole_depth(most_keys + amx_depth);  // zeros behind the keys
  static constexpr int64_t values_size = attention_max_width * 2 * amx_depth;
  alignas(64) uint32_t q[columns_size / 2], pairs[values_size / 2];  // (panels, D / 2, panel) pairs; scratch
  alignas(64) float out[columns_size];                               // (panels, D, panel)
  alignas(64) uint16_t k[rows_size + attention_max_width * amx_rows], v[values_size];  // (keys, D)
  alignas(64) uint16_t values[values_size];                                            // (D, keys)

  explicit AmxForward(const AttentionHead& h) : head(h) { amx_begin(); }
  ~AmxForward() { amx_end(); }

  void load_queries(int64_t p, int64_t first, int64_t end) {
    transpose_words(q + p * size / 2, panel, width / 2, panel, as<uint16_t>(head.q) + first * head.q_stride,
                    head.q_stride * 2, end - first, head.width * 2);
  }
  void load_tile(int64_t begin, int64_t count, int64_t first) {
    zero(k, width * (most_keys + amx_rows));
    zero(v, width * values_row);
    load_keys<uint16_t>(k, v, width, head, begin, count, first);
    pair_rows(pairs, width, v, width, values_row, width, values_row);
    transpose_words(values, values_row / 2, width, values_row / 2, pairs, width * 4, values_row / 2,
                    width * 4);
  }
  void scores(float* score, int64_t p, int64_t from, int64_t keys) {
    amx_product(score, panel, whole_rows(keys), panel, k + from * width, width, q + p * size / 2, panel,
                width, false);
    for (int64_t i = 0; i < keys * panel; i += lanes)
      store(score + i, load(score + i) * (head.scale * log2_e));
  }
  void add_values(int64_t p, int64_t from, int64_t keys, const float* weight, const float* keep) {
    float* to = out + p * size;
    if (keep != nullptr)
      for (int64_t i = 0; i < size; i += lanes) store(to + i, load(to + i) * load(keep + i % panel));
    pair_rows(pairs, panel, weight, panel, keys, panel, whole_depth(keys));
    amx_product(to, panel, width, panel, values + from, values_row, pairs, panel, whole_depth(keys),
                keep != nullptr);
  }
};

struct AmxBackward {
  using Number = uint16_t;
  static int64_t padded(int64_t width) { return whole_depth(width); }
  static int64_t columns(int64_t width) { return padded(width); }

  const AttentionHead& head;
  int64_t row = padded(head.width), keys_row = whole_depth(head.keys + tile);
  uint32_t *q, *dout;                         // (panels, D / 2, panel): pairs along D
  uint32_t *q_rows, *dout_rows;               // (tile / 2, D): pairs of queries
  int64_t chosen = 0;                         // as in VectorBackward
  static constexpr float* dw = nullptr;       // additive scores are not products
  uint32_t* pairs;                            // scratch
  uint16_t *k, *v, *keys;                     // (S, D); the keys' transpose (D, S)
  uint16_t *weight_rounded, *dscore_rounded;  // (tile, tile)

  template <class Cut>
  AmxBackward(const AttentionHead& h, Cut cut) : head(h) {
    const auto words = [&cut](int64_t n) { return reinterpret_cast<uint32_t*>(cut(n)); };
    const auto halves = [&cut](int64_t n) { return reinterpret_cast<uint16_t*>(cut(n / 2)); };
    const int64_t pass = attention_pass * tile * row / 2;
    q = words(pass), dout = words(pass), q_rows = words(pass), dout_rows = words(pass);
    pairs = words(tile * larger(row, panel));
    k = halves(keys_row * row), v = halves(keys_row * row), keys = halves(keys_row * row);
    weight_rounded = halves(tile * tile), dscore_rounded = halves(tile * tile);
    amx_begin();
  }
  ~AmxBackward() { amx_end(); }

  void load_all(int64_t end) {
    zero(k, keys_row * row);
    zero(v, keys_row * row);
    load_keys<uint16_t>(k, v, row, head, 0, end, 0);
    for (int64_t s = 0; s < keys_row; s += amx_depth) {
      pair_rows(pairs, row, k + s * row, row, amx_depth, row, amx_depth);
      transpose_words(keys + s, keys_row / 2, row, amx_depth / 2, pairs, row * 4, amx_depth / 2, row * 4);
    }
  }
  void choose(int64_t i) { chosen = i * tile * row / 2; }
  void load_queries(const uint16_t* from_q, const uint16_t* from_dout, int64_t dout_stride, int64_t count) {
    const auto load_one = [&](uint32_t* columns, uint32_t* rows, const uint16_t* from, int64_t stride) {
      for (int64_t i = 0; i < tile; i += panel)
        transpose_words(columns + i * row / 2, panel, row / 2, panel, from + i * stride, stride * 2,
                        count - i, head.width * 2);
      uint16_t* copy = reinterpret_cast<uint16_t*>(pairs);  // (tile, D), padded
      zero(copy, tile * row);
      copy_rows(copy, row, from, stride, count, head.width, 1);
      pair_rows(rows, row, copy, row, tile, row, tile);
    };
    load_one(q + chosen, q_rows + chosen, from_q, head.q_stride);
    load_one(dout + chosen, dout_rows + chosen, from_dout, dout_stride);
  }
  void scores(float* score, float* dweight, int64_t at, int64_t begin, int64_t n) {
    amx_product(score, tile, whole_rows(n), panel, k + begin * row, row, q + chosen + at * row / 2, panel,
                row, false);
    amx_product(dweight, tile, whole_rows(n), panel, v + begin * row, row, dout + chosen + at * row / 2,
                panel, row, false);
    for (int64_t s = 0; s < n; ++s)
      for (int64_t i = s * tile; i < s * tile + panel; i += lanes)
        store(score + i, load(score + i) * (head.scale * log2_e));
  }
  void add_queries(float* dq, float*, const float* dscore, int64_t, int64_t begin, int64_t n, bool adds) {
    pair_rows(pairs, panel, dscore, tile, n, panel, whole_depth(n));
    amx_product(dq, panel, row, panel, keys + begin, keys_row, pairs, panel, whole_depth(n), adds);
  }
  void tile_done(const float* weight, const float* dscore, int64_t n, int64_t queries) {
    const int64_t columns = (queries + panel - 1) / panel * panel;
    zero(weight_rounded, tile * tile);
    zero(dscore_rounded, tile * tile);
    round_rows(weight_rounded, tile, weight, tile, n, columns);
    round_rows(dscore_rounded, tile, dscore, tile, n, columns);
  }
  void add_dv(float* dv, const float*, int64_t s, int64_t n, int64_t t, int64_t end) {
    add_rows(dv, weight_rounded, dout_rows + chosen, s, n, t, end);
  }
  void add_dk(float* dk, const float*, int64_t s, int64_t n, int64_t t, int64_t end) {
    add_rows(dk, dscore_rounded, q_rows + chosen, s, n, t, end);
  }

 private:
  void add_rows(float* to, const uint16_t* a, const uint32_t* rows, int64_t s, int64_t n, int64_t t,
                int64_t end) {
    const int64_t first = t / amx_depth * amx_depth;
    amx_product(to + s * row, row, whole_rows(n), row, a + s * tile + first, tile, rows + first / 2 * row,
                row, whole_depth(end - first), true);
  }
};
#endif

}  // namespace
}  // namespace quern::kernels::QUERN_LEVEL
