#include "../attention_level.hpp"

#include "dropout.hpp"
#include "simd.hpp"
#include "tile.hpp"

// Everywhere in this file queries lie in the lanes of vectors, a panel of them at a time, and keys in the
// rows of a block. So the softmax over keys has no sums across lanes, keys and values are read as they lie
// (each number is broadcast), and only queries, outputs and their gradients are transposed, once a tile.
// Scores are in base 2.
namespace quern::kernels::QUERN_LEVEL {
namespace {

constexpr int64_t tile = attention_tile;
constexpr int64_t wide =
    64 * tile;  // floats of a tile of 64 numbers a row; wider heads get fewer rows a tile
constexpr int64_t columns_size = wide > attention_max_width* panel ? wide : attention_max_width* panel;
constexpr int64_t few_queries = 4;  // that many are cheaper one by one
constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;

QUERN_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
QUERN_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// The end of the span of keys that query t sees.
QUERN_INLINE int64_t span_end(const AttentionHead& head, int64_t t) {
  return head.causal ? smaller(head.visible, head.offset + t + 1) : head.visible;
}

/// Asks for the keys and values [begin, begin + panel), as far as they are below `end`.
QUERN_INLINE void prefetch_keys(const AttentionHead& head, int64_t begin, int64_t end) {
  prefetch_rows(head.k + begin * head.k_stride, head.k_stride, smaller(panel, end - begin), head.width);
  prefetch_rows(head.v + begin * head.v_stride, head.v_stride, smaller(panel, end - begin), head.width);
}

/// Hides the keys that a query of the panel does not see: score(s,t) = -inf at or beyond the span's end.
/// Query `first` is in lane 0, key `begin` in row 0.
void hide(float* score, int64_t ld, const AttentionHead& head, int64_t first, int64_t begin, int64_t keys) {
  vi lane;
  for (int i = 0; i < lanes; ++i) lane[i] = i;
  const vf hidden = broadcast(-__builtin_inff());
  for (int64_t s = larger(0, span_end(head, first) - begin); s < keys; ++s)
    for (int j = 0; j < 2; ++j) {
      float* at = score + s * ld + j * lanes;
      const int64_t before =
          begin + s - head.offset - first - j * lanes;  // lanes below see nothing of this key
      const vi sees = lane >= static_cast<int32_t>(smaller(before, lanes));
      store(at, sees ? load(at) : hidden);
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
  vq even_row;
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

/// The state of the online softmax of a panel of queries.
struct Running {
  float largest[panel], total[panel];
  float keep[panel];  // by what the last step scales all that was added up before it
};

/// Scores become weights relative to the largest score so far.
void softmax_step(float* score, int64_t keys, Running& state) {
  for (int j = 0; j < 2; ++j) {
    float* column = score + j * lanes;
    const vf before = load(state.largest + j * lanes);
    vf m0 = before, m1 = before;
    int64_t s = 0;
    for (; s + 2 <= keys; s += 2) {
      m0 = max(load(column + s * panel), m0);
      m1 = max(load(column + (s + 1) * panel), m1);
    }
    if (s < keys) m0 = max(load(column + s * panel), m0);
    const vf now = max(m0, m1);
    const vf base = now == -__builtin_inff() ? vf{} : now;  // nothing seen yet: every weight is 2^-inf = 0
    vf total = vf{};
    for (s = 0; s < keys; ++s) {
      const vf weight = exp2(load(column + s * panel) - base);
      store(column + s * panel, weight);
      total += weight;
    }
    const vf keep = exp2(before - base);
    store(state.keep + j * lanes, keep);
    store(state.largest + j * lanes, now);
    store(state.total + j * lanes, load(state.total + j * lanes) * keep + total);
  }
}

/// What is left to do for a sum of weights: 1 / total (0 when there was nothing) and the natural logsumexp.
QUERN_INLINE float finish_row(float largest_score, float total, float* lse) {
  *lse = total == 0 ? -__builtin_inff() : largest_score * ln_2 + __builtin_logf(total);
  return total == 0 ? 0 : 1 / total;
}

/// Queries [begin, end), whose transpose fits in `columns_size`.
void forward_panels(const AttentionHead& head, const AttentionOutput& to, int64_t begin, int64_t end) {
  const int64_t width = head.width, panels = (end - begin + panel - 1) / panel, size = width * panel;
  const int64_t step = larger(8, smaller(tile, wide / width / 8 * 8));
  alignas(64) float q[columns_size], out[columns_size], k[wide], v[wide], score[tile * panel];
  Running state[tile / panel];
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = begin + p * panel;
    pack_columns(q + p * size, head.q + first * head.q_stride, head.q_stride, end - first, width,
                 head.scale * log2_e);
    for (int i = 0; i < panel; ++i) state[p].largest[i] = -__builtin_inff(), state[p].total[i] = 0;
  }
  const int64_t keys_end = span_end(head, end - 1);
  if (keys_end <= 0) __builtin_memset(out, 0, sizeof out);
  for (int64_t s = 0; s < keys_end; s += step) {
    const int64_t keys = smaller(step, keys_end - s);
    copy_rows(k, width, head.k + s * head.k_stride, head.k_stride, keys, width, 1);
    copy_rows(v, width, head.v + s * head.v_stride, head.v_stride, keys, width, 1);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t first = begin + p * panel, last = smaller(first + panel, end) - 1;
      const int64_t seen = smaller(keys, span_end(head, last) - s);
      if (seen <= 0) continue;
      product<2>(score, panel, seen, {k, width, 1}, q + p * size, panel, width, nullptr);
      prefetch_keys(head, s + step + p * panel, keys_end);
      hide(score, panel, head, first, s, seen);
      softmax_step(score, seen, state[p]);
      if (head.dropout.threshold != 0)
        for_each_dropped(head.dropout, first, s, seen, panel,
                         [&](int64_t at, vf factor) { store(score + at, load(score + at) * factor); });
      product<2>(out + p * size, panel, width, {v, 1, width}, score, panel, seen,
                 s == 0 ? nullptr : state[p].keep);
    }
  }
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = begin + p * panel, count = smaller(panel, end - first);
    float scale[panel] = {};
    for (int64_t i = 0; i < count; ++i)
      scale[i] = finish_row(state[p].largest[i], state[p].total[i], to.lse + first + i);
    unpack_columns(to.out + first * to.stride, to.stride, count, width, out + p * size, scale, 0);
  }
}

/// One query without dropout: the dot products and the sum run along D.
void forward_row(const AttentionHead& head, const AttentionOutput& to, int64_t t) {
  const int64_t width = head.width, padded = (width + lanes - 1) / lanes * lanes,
                whole = width / lanes * lanes;
  const int64_t keys_end = span_end(head, t);
  alignas(64) float q[attention_max_width + lanes] = {}, out[attention_max_width + lanes] = {}, score[tile];
  copy_rows(q, width, head.q + t * head.q_stride, head.q_stride, 1, width, head.scale * log2_e);
  float largest_score = -__builtin_inff(), total = 0;
  for (int64_t begin = 0; begin < keys_end; begin += tile) {
    const int64_t keys = smaller(tile, keys_end - begin);
    for (int64_t s = 0; s < keys; ++s) {
      const float* k = head.k + (begin + s) * head.k_stride;
      vf even = vf{}, odd = vf{};
      int64_t d = 0;
      for (; d + 2 * lanes <= width; d += 2 * lanes) {
        even += load(q + d) * load(k + d);
        odd += load(q + d + lanes) * load(k + d + lanes);
      }
      if (d < whole) even += load(q + d) * load(k + d);
      if (whole < width) odd += load(q + whole) * load_part(k + whole, width - whole);
      score[s] = sum(even + odd);
    }
    float m = largest_score;
    for (int64_t s = 0; s < keys; ++s) m = score[s] > m ? score[s] : m;
    const float base = m == -__builtin_inff() ? 0 : m;
    const vf keep = exp2(broadcast(largest_score - base));
    for (int64_t s = keys; s < tile; ++s) score[s] = -__builtin_inff();
    vf added = vf{};
    for (int64_t s = 0; s < tile; s += lanes) {
      const vf weight = exp2(load(score + s) - base);
      store(score + s, weight);
      added += weight;
    }
    total = total * keep[0] + sum(added);
    largest_score = m;
    for (int64_t d = 0; d < padded; d += lanes) {
      const float* v = head.v + begin * head.v_stride + d;
      vf even = load(out + d) * keep, odd = vf{};
      for (int64_t s = 0; s < keys; ++s) {
        const float* row = v + s * head.v_stride;
        const vf x = score[s] * (d < whole ? load(row) : load_part(row, width - whole));
        if (s % 2 == 0)
          even += x;
        else
          odd += x;
      }
      store(out + d, even + odd);
    }
  }
  const float inverse = finish_row(largest_score, total, to.lse + t);
  copy_rows(to.out + t * to.stride, to.stride, out, padded, 1, width, inverse);
}

/// The tiles of attention_backward_head, cut from its scratch.
struct BackwardTiles {
  float *q, *dout, *dq;          // (panels, D, panel): columns
  float *q_rows, *dout_rows;     // (tile, padded D)
  float *k, *v;                  // (S, D): strides between the rows of a packed projection defeat caches
  float *weight, *dscore;        // (tile of keys, tile of queries)
  float *dk, *dv;                // (S, padded D): sums over the queries so far
  float lse[tile], delta[tile];  // of the queries; lse in base 2
  int64_t padded;
};

/// Queries [begin, begin + count), ready for the products. scale goes into the rows of q, for dk.
void pack_queries(BackwardTiles& x, const AttentionHead& head, const AttentionGradient& g, int64_t begin,
                  int64_t count) {
  const int64_t width = head.width;
  const float *q = head.q + begin * head.q_stride, *dout = g.dout + begin * g.dout_stride;
  for (int64_t i = 0; i < count; i += panel) {
    pack_columns(x.q + i * width, q + i * head.q_stride, head.q_stride, count - i, width,
                 head.scale * log2_e);
    pack_columns(x.dout + i * width, dout + i * g.dout_stride, g.dout_stride, count - i, width, 1);
  }
  copy_rows(x.q_rows, x.padded, q, head.q_stride, count, width, head.scale);
  copy_rows(x.dout_rows, x.padded, dout, g.dout_stride, count, width, 1);
  for (int64_t i = 0; i < tile; ++i) {
    x.lse[i] = __builtin_inff();  // a query that is not there, or sees nothing: every weight is 2^-inf = 0
    x.delta[i] = 0;
    if (i >= count) continue;
    if (g.lse[begin + i] != -__builtin_inff()) x.lse[i] = g.lse[begin + i] * log2_e;
    const float *a = dout + i * g.dout_stride, *b = g.out + (begin + i) * g.out_stride;
    vf total = vf{};
    int64_t d = 0;
    for (; d + lanes <= width; d += lanes) total += load(a + d) * load(b + d);
    if (d < width) total += load_part(a + d, width - d) * load_part(b + d, width - d);
    x.delta[i] = sum(total);
  }
}

/// Of a panel (queries from `first`, at column `at` of the tile) and keys [begin, begin + keys): the weights,
/// dropped, and the gradients of the scores but for `scale`.
void weights_and_gradients(BackwardTiles& x, const AttentionHead& head, int64_t first, int64_t at,
                           int64_t begin, int64_t keys) {
  const int64_t width = head.width;
  float *weight = x.weight + at, *dscore = x.dscore + at;
  product<2>(weight, tile, keys, {x.k + begin * width, width, 1}, x.q + at * width, panel, width, nullptr);
  product<2>(dscore, tile, keys, {x.v + begin * width, width, 1}, x.dout + at * width, panel, width, nullptr);
  hide(weight, tile, head, first, begin, keys);
  const bool dropped = head.dropout.threshold != 0;
  for (int j = 0; j < panel; j += lanes) {
    const vf lse = load(x.lse + at + j), delta = load(x.delta + at + j);
    if (dropped) continue;
    for (int64_t s = 0; s < keys; ++s) {
      float *w = weight + s * tile + j, *g = dscore + s * tile + j;
      const vf p = exp2(load(w) - lse);
      store(w, p);
      store(g, p * (load(g) - delta));
    }
  }
  if (dropped)
    for_each_dropped(head.dropout, first, begin, keys, tile, [&](int64_t place, vf factor) {
      const int64_t j = at + place % tile;
      const vf p = exp2(load(weight + place) - load(x.lse + j));
      store(weight + place, p * factor);
      store(dscore + place, p * (load(dscore + place) * factor - load(x.delta + j)));
    });
}

/// to(s, d) += sum_t a(s, t) rows(t, d): `keys` keys and the queries of the tile; key s is seen by the
/// queries from seen_from + s on.
void add_over_queries(float* to, const float* a, const float* rows, int64_t padded, int64_t keys,
                      int64_t queries, int64_t seen_from) {
  float ones[panel];
  for (float& one : ones) one = 1;
  constexpr int64_t some = 16;
  for (int64_t s = 0; s < keys; s += some) {
    const int64_t n = smaller(some, keys - s), t = larger(0, seen_from + s);
    if (t >= queries) break;
    const Strided left = {a + s * tile + t, tile, 1};
    int64_t d = 0;
    for (; d + panel <= padded; d += panel)
      product<2>(to + s * padded + d, padded, n, left, rows + t * padded + d, padded, queries - t, ones);
    if (d < padded)
      product<1>(to + s * padded + d, padded, n, left, rows + t * padded + d, padded, queries - t, ones);
  }
}

void zero_rows(float* to, int64_t ld, int64_t begin, int64_t end) {
  for (int64_t s = begin; s < end; ++s)
    for (int j = 0; j < panel; j += lanes) store(to + s * ld + j, vf{});
}

/// The part of a tile of queries (from `first`, `queries` of them) and keys (from `begin`) in all three
/// gradients.
void backward_tile(BackwardTiles& x, const AttentionHead& head, const AttentionGradient& g, int64_t first,
                   int64_t queries, int64_t begin, int64_t keys) {
  const int64_t width = head.width;
  float ones[panel];
  for (float& one : ones) one = 1;
  for (int64_t at = 0; at < queries; at += panel) {
    const int64_t last = first + smaller(at + panel, queries) - 1;
    const int64_t seen = larger(0, smaller(keys, span_end(head, last) - begin));
    zero_rows(x.weight + at, tile, seen, keys);
    zero_rows(x.dscore + at, tile, seen, keys);
    if (seen == 0) continue;
    weights_and_gradients(x, head, first + at, at, begin, seen);
    if (g.dq.to != nullptr)
      product<2>(x.dq + at * width, panel, width, {x.k + begin * width, 1, width}, x.dscore + at, tile, seen,
                 begin == 0 ? nullptr : ones);
  }
  const int64_t seen_from = head.causal ? begin - head.offset - first : -keys;
  if (g.dv.to != nullptr)
    add_over_queries(x.dv + begin * x.padded, x.weight, x.dout_rows, x.padded, keys, queries, seen_from);
  if (g.dk.to != nullptr)
    add_over_queries(x.dk + begin * x.padded, x.dscore, x.q_rows, x.padded, keys, queries, seen_from);
}

/// to = from + beta * to, from rows of `padded` numbers.
void write_rows(const AttentionSink& sink, const float* from, int64_t padded, int64_t rows, int64_t width) {
  for (int64_t t = 0; t < rows; ++t, from += padded) {
    float* to = sink.to + t * sink.stride;
    int64_t d = 0;
    for (; d + lanes <= width; d += lanes)
      store(to + d, sink.beta == 0 ? load(from + d) : load(from + d) + sink.beta * load(to + d));
    for (; d < width; ++d) to[d] = sink.beta == 0 ? from[d] : from[d] + sink.beta * to[d];
  }
}

}  // namespace

void attention_forward_tile(const AttentionHead& head, const AttentionOutput& to, int64_t begin,
                            int64_t end) {
  if (end - begin <= few_queries && head.dropout.threshold == 0) {
    for (int64_t t = begin; t < end; ++t) forward_row(head, to, t);
    return;
  }
  const int64_t step = columns_size / head.width / panel * panel;
  for (int64_t t = begin; t < end; t += step) forward_panels(head, to, t, smaller(t + step, end));
}

void attention_backward_head(const AttentionHead& head, const AttentionGradient& g, float* scratch) {
  const int64_t width = head.width, padded = (width + lanes - 1) / lanes * lanes;
  BackwardTiles x;
  x.padded = padded;
  const auto cut = [&scratch](int64_t n) { return scratch += n, scratch - n; };
  x.q = cut(tile * padded), x.dout = cut(tile * padded), x.dq = cut(tile * padded);
  x.q_rows = cut(tile * padded), x.dout_rows = cut(tile * padded);
  x.k = cut(head.keys * padded), x.v = cut(head.keys * padded);
  x.weight = cut(tile * tile), x.dscore = cut(tile * tile);
  x.dk = cut(head.keys * padded), x.dv = cut(head.keys * padded);
  __builtin_memset(x.q_rows, 0,
                   static_cast<unsigned long>(2 * tile * padded) * sizeof(float));  // what pads D
  __builtin_memset(x.dk, 0, static_cast<unsigned long>(2 * head.keys * padded) * sizeof(float));
  const int64_t all_seen = larger(0, span_end(head, head.queries - 1));
  copy_rows(x.k, width, head.k, head.k_stride, all_seen, width, 1);
  copy_rows(x.v, width, head.v, head.v_stride, all_seen, width, 1);
  for (int64_t t = 0; t < head.queries; t += tile) {
    const int64_t queries = smaller(tile, head.queries - t), keys_end = span_end(head, t + queries - 1);
    pack_queries(x, head, g, t, queries);
    if (keys_end <= 0) __builtin_memset(x.dq, 0, static_cast<unsigned long>(tile * padded) * sizeof(float));
    for (int64_t s = 0; s < keys_end; s += tile)
      backward_tile(x, head, g, t, queries, s, smaller(tile, keys_end - s));
    if (g.dq.to == nullptr) continue;
    float scale[panel];
    for (float& one : scale) one = head.scale;
    for (int64_t i = 0; i < queries; i += panel)
      unpack_columns(g.dq.to + (t + i) * g.dq.stride, g.dq.stride, smaller(panel, queries - i), width,
                     x.dq + i * width, scale, g.dq.beta);
  }
  if (g.dk.to != nullptr) write_rows(g.dk, x.dk, padded, head.keys, width);
  if (g.dv.to != nullptr) write_rows(g.dv, x.dv, padded, head.keys, width);
}

}  // namespace quern::kernels::QUERN_LEVEL
