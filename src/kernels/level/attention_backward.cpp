#include "additive.hpp"
#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

/// The tiles of attention_backward_head, cut from its scratch.
struct BackwardTiles {
  float *q, *dout, *dq;          // (panels, D, panel): columns
  float *q_rows, *dout_rows;     // (tile, padded D)
  float *k, *v;                  // (S, D): strides between the rows of a packed projection defeat caches
  float *weight, *dscore;        // (tile of keys, tile of queries)
  float *dk, *dv;                // (S, padded D): sums over the queries so far
  float* dw;                     // (D, lanes): of additive scores' vector
  float lse[tile], delta[tile];  // of the queries; lse in base 2
  bool fresh[tile / panel];      // a panel's dq has nothing yet
  int64_t padded;
};

/// Queries [begin, begin + count), ready for the products. scale goes into the rows of q, for dk.
template <class T>
void pack_queries(BackwardTiles& x, const AttentionHead& head, const AttentionGradient& g, int64_t begin,
                  int64_t count) {
  const int64_t width = head.width;
  const T* q = as<T>(head.q) + begin * head.q_stride;
  const T *dout = as<T>(g.dout) + begin * g.dout_stride, *out = as<T>(g.out);
  for (int64_t i = 0; i < count; i += panel) {
    pack_columns(x.q + i * width, q + i * head.q_stride, head.q_stride, count - i, width, query_scale(head));
    pack_columns(x.dout + i * width, dout + i * g.dout_stride, g.dout_stride, count - i, width, 1);
  }
  copy_rows(x.q_rows, x.padded, q, head.q_stride, count, width, head.scale);
  copy_rows(x.dout_rows, x.padded, dout, g.dout_stride, count, width, 1);
  for (int64_t i = 0; i < tile; ++i) {
    x.lse[i] = __builtin_inff();  // a query that is not there, or sees nothing: every weight is 2^-inf = 0
    x.delta[i] = 0;
    if (i >= count) continue;
    if (g.lse[begin + i] != -__builtin_inff()) x.lse[i] = g.lse[begin + i] * log2_e;
    const T *a = dout + i * g.dout_stride, *b = out + (begin + i) * g.out_stride;
    vf total = vf{};
    int64_t d = 0;
    for (; d + lanes <= width; d += lanes) total += load(a + d) * load(b + d);
    if (d < width) total += load_part(a + d, width - d) * load_part(b + d, width - d);
    x.delta[i] = sum(total);
  }
}

/// Of a panel (queries from `first`, at column `at` of the tile) and keys [begin, begin + keys), from row
/// `row` of the tile on: the weights, dropped, and the gradients of the scores but for `scale`.
void weights_and_gradients(BackwardTiles& x, const AttentionHead& head, int64_t first, int64_t at,
                           int64_t row, int64_t begin, int64_t keys) {
  const int64_t width = head.width;
  float *weight = x.weight + row * tile + at, *dscore = x.dscore + row * tile + at;
  panel_scores(weight, tile, head, x.k + begin * width, x.q + at * width, keys);
  product<2>(dscore, tile, keys, {x.v + begin * width, width, 1}, x.dout + at * width, panel, width, nullptr);
  add_bias(weight, tile, head, first, begin, keys);
  hide(weight, tile, head, first, begin, keys);
  if (head.dropout.threshold != 0)
    return for_each_dropped(head.dropout, first, begin, keys, tile, [&](int64_t place, vf factor) {
      const int64_t j = at + place % tile;
      const vf p = exp2(load(weight + place) - load(x.lse + j));
      store(weight + place, p * factor);
      store(dscore + place, p * (load(dscore + place) * factor - load(x.delta + j)));
    });
  for (int j = 0; j < panel; j += lanes) {
    const vf lse = load(x.lse + at + j), delta = load(x.delta + at + j);
    for (int64_t place = j; place < keys * tile; place += tile) {
      const vf p = exp2(load(weight + place) - lse);
      store(weight + place, p);
      store(dscore + place, p * (load(dscore + place) - delta));
    }
  }
}

/// to(s, d) += sum_t a(s, t) rows(t, d): `keys` keys and the queries of the tile; key s is seen by the
/// `window` queries from seen_from + s on.
void add_over_queries(float* to, const float* a, const float* rows, int64_t padded, int64_t keys,
                      int64_t queries, int64_t seen_from, int64_t window) {
  float ones[panel];
  for (float& one : ones) one = 1;
  constexpr int64_t some = 16;
  for (int64_t s = 0; s < keys; s += some) {
    const int64_t n = smaller(some, keys - s), t = larger(0, seen_from + s);
    const int64_t end = smaller(queries, seen_from + s + n - 1 + window);
    if (t >= queries) break;
    if (t >= end) continue;
    const Strided left = {a + s * tile + t, tile, 1};
    int64_t d = 0;
    for (; d + panel <= padded; d += panel)
      product<2>(to + s * padded + d, padded, n, left, rows + t * padded + d, padded, end - t, ones);
    if (d < padded)
      product<1>(to + s * padded + d, padded, n, left, rows + t * padded + d, padded, end - t, ones);
  }
}

void zero_rows(float* to, int64_t begin, int64_t end) {
  for (int64_t s = begin; s < end; ++s)
    for (int j = 0; j < panel; j += lanes) store(to + s * tile + j, vf{});
}

/// The part of a tile of queries (from `first`, `queries` of them) and keys (from `begin`) in all three
/// gradients; dq of the tile starts with the first keys that it sees.
void backward_tile(BackwardTiles& x, const AttentionHead& head, const AttentionGradient& g, int64_t first,
                   int64_t queries, int64_t begin, int64_t keys) {
  const int64_t width = head.width;
  float ones[panel];
  for (float& one : ones) one = 1;
  for (int64_t at = 0; at < queries; at += panel) {
    const int64_t last = first + smaller(at + panel, queries) - 1;
    // Of the tile, the panel sees something of the keys [from, seen).
    const int64_t from = larger(0, smaller(keys, first_key(head, first + at) - begin));
    const int64_t seen = larger(from, smaller(keys, span_end(head, last) - begin));
    zero_rows(x.weight + at, 0, from), zero_rows(x.weight + at, seen, keys);
    zero_rows(x.dscore + at, 0, from), zero_rows(x.dscore + at, seen, keys);
    if (seen == from) continue;
    weights_and_gradients(x, head, first + at, at, from, begin + from, seen - from);
    const bool fresh = x.fresh[at / panel];
    if (head.additive != nullptr) {
      if (fresh) zero(x.dq + at * width, panel * width);
      const AdditiveSums to = {x.dq + at * width, x.dk + (begin + from) * x.padded, x.dw, x.padded};
      additive_gradients(to, head, x.dscore + from * tile + at, tile, x.k + (begin + from) * width,
                         x.q + at * width, seen - from);
    } else if (g.dq.to != nullptr) {
      product<2>(x.dq + at * width, panel, width, {x.k + (begin + from) * width, 1, width},
                 x.dscore + from * tile + at, tile, seen - from, fresh ? nullptr : ones);
    }
    x.fresh[at / panel] = false;
  }
  const int64_t seen_from = head.causal ? begin - head.offset - first : -keys;
  const int64_t window = head.window > 0 ? head.window : head.offset + head.keys + head.queries;
  if (g.dv.to != nullptr)
    add_over_queries(x.dv + begin * x.padded, x.weight, x.dout_rows, x.padded, keys, queries, seen_from,
                     window);
  if (g.dk.to != nullptr && head.additive == nullptr)
    add_over_queries(x.dk + begin * x.padded, x.dscore, x.q_rows, x.padded, keys, queries, seen_from, window);
}

/// to = from + beta * to, from rows of `padded` numbers.
template <class T>
void write_rows(const AttentionSink& sink, const float* from, int64_t padded, int64_t rows, int64_t width) {
  for (int64_t t = 0; t < rows; ++t, from += padded) {
    T* to = static_cast<T*>(sink.to) + t * sink.stride;
    columns(0, width,
            [&](int64_t d, int64_t k) QUERN_LAMBDA { sink_n(to + d, load_n(from + d, k), sink.beta, k); });
  }
}

template <class T>
void backward_head(const AttentionHead& head, const AttentionGradient& g, float* scratch) {
  const int64_t width = head.width, padded = (width + lanes - 1) / lanes * lanes;
  BackwardTiles x;
  x.padded = padded;
  const auto cut = [&scratch](int64_t n) { return scratch += n, scratch - n; };
  x.q = cut(tile * padded), x.dout = cut(tile * padded), x.dq = cut(tile * padded);
  x.q_rows = cut(tile * padded), x.dout_rows = cut(tile * padded);
  x.k = cut(head.keys * padded), x.v = cut(head.keys * padded);
  x.weight = cut(tile * tile), x.dscore = cut(tile * tile);
  x.dk = cut(head.keys * padded), x.dv = cut(head.keys * padded);
  x.dw = cut(lanes * padded);
  if (head.additive != nullptr) zero(x.dw, lanes * width);
  if (g.first) {
    zero(x.q_rows, 2 * tile * padded);  // both rows' padding of D
    zero(x.dk, 2 * head.keys * padded);
    load_keys<T>(x.k, x.v, head, 0, larger(0, span_end(head, head.queries - 1)), span_begin(head, 0));
  }
  for (int64_t t = 0; t < head.queries; t += tile) {
    const int64_t queries = smaller(tile, head.queries - t), keys_end = span_end(head, t + queries - 1);
    pack_queries<T>(x, head, g, t, queries);
    for (bool& fresh : x.fresh) fresh = true;
    for (int64_t s = first_key(head, t); s < keys_end; s += tile)
      backward_tile(x, head, g, t, queries, s, smaller(tile, keys_end - s));
    if (g.dq.to == nullptr) continue;
    for (int64_t i = 0; i < queries; i += panel)
      if (x.fresh[i / panel]) zero(x.dq + i * width, panel * width);
    float scale[panel];
    for (float& one : scale) one = head.scale;
    for (int64_t i = 0; i < queries; i += panel)
      unpack_columns(static_cast<T*>(g.dq.to) + (t + i) * g.dq.stride, g.dq.stride,
                     smaller(panel, queries - i), width, x.dq + i * width, scale, g.dq.beta);
  }
  if (g.dadditive != nullptr)
    for (int64_t d = 0; d < width; ++d) g.dadditive[d] = sum(load(x.dw + d * lanes));
  if (!g.last) return;
  if (g.dk.to != nullptr) write_rows<T>(g.dk, x.dk, padded, head.keys, width);
  if (g.dv.to != nullptr) write_rows<T>(g.dv, x.dv, padded, head.keys, width);
}

}  // namespace

void attention_backward_head(const AttentionHead& head, const AttentionGradient& g, float* scratch) {
  if (head.half) return backward_head<uint16_t>(head, g, scratch);
  backward_head<float>(head, g, scratch);
}

}  // namespace quern::kernels::QUERN_LEVEL
