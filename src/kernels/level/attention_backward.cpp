#include "attention_products.hpp"
#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

/// What attention_backward_head keeps of a tile of queries, beside its operands.
struct QueryTile {
  int64_t first, count;          // queries [first, first + count)
  float* dq;                     // (panels, D, panel): columns
  float lse[tile], delta[tile];  // lse in base 2
  bool fresh[tile / panel];      // a panel's dq has nothing yet
};

/// … of a tile of queries and one of keys, and of all keys.
struct BackwardTiles {
  float *weight, *dscore;  // (tile of keys, tile of queries), and room for a block of rows behind
  float *dk, *dv;          // (S, padded D): sums over the queries so far
  int64_t row, dq_rows;    // padded D, in rows and in columns
};

template <class T>
void load_statistics(QueryTile& x, const AttentionHead& head, const AttentionGradient& g) {
  const int64_t width = head.width;
  const T *dout = as<T>(g.dout), *out = as<T>(g.out);
  for (int64_t i = 0; i < tile; i += lanes) {
    const int64_t n = smaller(lanes, x.count - i);
    // A query that is not there, or sees nothing: every weight is 2^-inf = 0.
    vf lse = broadcast(__builtin_inff()), dot[lanes] = {};
    if (n > 0) {
      const vf one = load_n(g.lse + x.first + i, n, -__builtin_inff());
      lse = one == -__builtin_inff() ? lse : one * log2_e;
    }
#pragma GCC unroll 16
    for (int r = 0; r < lanes; ++r) {
      if (r >= n) continue;
      const T *a = dout + (x.first + i + r) * g.dout_stride, *b = out + (x.first + i + r) * g.out_stride;
      int64_t d = 0;
      for (; d + lanes <= width; d += lanes) dot[r] += load(a + d) * load(b + d);
      if (d < width) dot[r] += load_part(a + d, width - d) * load_part(b + d, width - d);
    }
    store(x.lse + i, lse);
    store(x.delta + i, sums_of(dot));
  }
}

/// Of the panel at column `at` of a tile of queries and keys [begin, begin + keys), from row `row` of their
/// tile on: the weights, dropped, and the gradients of the scores but for `scale`.
template <class Products>
void weights_and_gradients(BackwardTiles& x, const QueryTile& q, Products& products, int64_t at, int64_t row,
                           int64_t begin, int64_t keys) {
  const AttentionHead& head = products.head;
  const int64_t first = q.first + at;
  float *weight = x.weight + row * tile + at, *dscore = x.dscore + row * tile + at;
  products.scores(weight, dscore, at, begin, keys);
  add_bias(weight, tile, head, first, begin, keys);
  hide(weight, tile, head, first, begin, keys);
  if (head.dropout.threshold != 0)
    return for_each_dropped(head.dropout, first, begin, keys, tile, [&](int64_t place, vf factor) {
      const int64_t j = at + place % tile;
      const vf p = exp2(load(weight + place) - load(q.lse + j));
      store(weight + place, p * factor);
      store(dscore + place, p * (load(dscore + place) * factor - load(q.delta + j)));
    });
  for (int j = 0; j < panel; j += lanes) {
    const vf lse = load(q.lse + at + j), delta = load(q.delta + at + j);
    for (int64_t place = j; place < keys * tile; place += tile) {
      const vf p = exp2(load(weight + place) - lse);
      store(weight + place, p);
      store(dscore + place, p * (load(dscore + place) - delta));
    }
  }
}

/// Which queries of a tile see something of its key s: at most the `count` from `first` + s on.
struct Watchers {
  int64_t first, count;
};

/// Of a tile of queries from `first` on and keys from `begin` on.
Watchers watchers(const AttentionHead& head, int64_t first, int64_t begin, int64_t keys) {
  const int64_t same = begin - head.offset - first, all = head.offset + head.keys + head.queries;
  const bool bounded = head.window > 0 && begin >= head.globals && !sees_all(head, first);
  if (head.causal) return {same, bounded ? head.window : all};
  if (bounded) return {same - head.window + 1, 2 * head.window - 1};
  return {-keys, all};
}

/// Calls add(s, n, t, end) for the keys [s, s + n) of a tile and the queries [t, end) of those that see them.
template <class F>
void for_watched(int64_t keys, int64_t queries, Watchers by, F add) {
  constexpr int64_t some = 16;
  for (int64_t s = 0; s < keys; s += some) {
    const int64_t n = smaller(some, keys - s), t = larger(0, by.first + s);
    const int64_t end = smaller(queries, by.first + s + n - 1 + by.count);
    if (t >= queries) break;
    if (t < end) add(s, n, t, end);
  }
}

void zero_rows(float* to, int64_t begin, int64_t end) {
  for (int64_t s = begin; s < end; ++s)
    for (int j = 0; j < panel; j += lanes) store(to + s * tile + j, vf{});
}

/// The part of a tile of queries and keys [begin, begin + keys) in all three gradients; dq of the tile starts
/// with the first keys that it sees.
template <class Products>
void backward_tile(BackwardTiles& x, QueryTile& q, Products& products, const AttentionGradient& g,
                   int64_t begin, int64_t keys) {
  const AttentionHead& head = products.head;
  for (int64_t at = 0; at < q.count; at += panel) {
    const int64_t first = q.first + at, last = q.first + smaller(at + panel, q.count) - 1;
    // Of the tile, the panel sees something of the keys [from, seen).
    const int64_t from = smaller(keys, panel_from(head, first, begin));
    const int64_t seen = larger(from, smaller(keys, last_key(head, first, last) - begin));
    if (seen > from) weights_and_gradients(x, q, products, at, from, begin + from, seen - from);
    zero_rows(x.weight + at, 0, from), zero_rows(x.weight + at, seen, keys);
    zero_rows(x.dscore + at, 0, from), zero_rows(x.dscore + at, seen, keys);
    if (seen == from) continue;
    products.add_queries(q.dq + at * x.dq_rows, x.dk + (begin + from) * x.row, x.dscore + from * tile + at,
                         at, begin + from, seen - from, !q.fresh[at / panel]);
    q.fresh[at / panel] = false;
  }
  products.tile_done(x.weight, x.dscore, keys, q.count);
  for_watched(keys, q.count, watchers(head, q.first, begin, keys),
              [&](int64_t s, int64_t n, int64_t t, int64_t end) {
                if (g.dv.to != nullptr) products.add_dv(x.dv + begin * x.row, x.weight, s, n, t, end);
                if (g.dk.to != nullptr) products.add_dk(x.dk + begin * x.row, x.dscore, s, n, t, end);
              });
}

/// The queries from `first` on, as many as go together: their tiles take turns at each tile of keys, so that
/// long sequences' keys, values and both sums are fetched from far once a pass.
template <class Products>
void backward_pass(BackwardTiles& x, QueryTile* tiles, Products& products, const AttentionGradient& g,
                   int64_t first) {
  using T = typename Products::Number;
  const AttentionHead& head = products.head;
  int64_t count = 0, queries_end = first;
  for (; count < attention_pass && queries_end < head.queries; ++count) {
    QueryTile& q = tiles[count];
    q.first = queries_end, q.count = smaller(tile, head.queries - q.first);
    queries_end += q.count;
    products.choose(count);
    products.load_queries(as<T>(head.q) + q.first * head.q_stride, as<T>(g.dout) + q.first * g.dout_stride,
                          g.dout_stride, q.count);
    load_statistics<T>(q, head, g);
    for (bool& fresh : q.fresh) fresh = true;
  }
  const int64_t keys_end = last_key(head, first, queries_end - 1);
  for (int64_t s = next_key(head, first, 0), keys = 0; s < keys_end; s = next_key(head, first, s + keys)) {
    keys = tile_keys(head, first, s, tile, keys_end);
    for (int64_t i = 0; i < count; ++i) {
      QueryTile& q = tiles[i];
      const bool sees = s + panel_from(head, q.first, s) <
                        smaller(s + keys, last_key(head, q.first, q.first + q.count - 1));
      if (!sees) continue;
      products.choose(i);
      backward_tile(x, q, products, g, s, keys);
    }
  }
  if (g.dq.to == nullptr) return;
  float scale[panel];
  for (float& one : scale) one = head.scale;
  for (const QueryTile* q = tiles; q < tiles + count; ++q)
    for (int64_t i = 0; i < q->count; i += panel) {
      if (q->fresh[i / panel]) zero(q->dq + i * x.dq_rows, panel * x.dq_rows);
      unpack_columns(static_cast<T*>(g.dq.to) + (q->first + i) * g.dq.stride, g.dq.stride,
                     smaller(panel, q->count - i), head.width, q->dq + i * x.dq_rows, scale, g.dq.beta);
    }
}

/// to = factor * from + beta * to, from rows of `row` numbers.
template <class T>
void write_rows(const AttentionSink& sink, const float* from, int64_t row, int64_t rows, int64_t width,
                float factor) {
  for (int64_t t = 0; t < rows; ++t, from += row) {
    T* to = static_cast<T*>(sink.to) + t * sink.stride;
    columns(0, width, [&](int64_t d, int64_t k) QUERN_LAMBDA {
      sink_n(to + d, factor * load_n(from + d, k), sink.beta, k);
    });
  }
}

template <class Products>
void backward_head(const AttentionHead& head, const AttentionGradient& g, float* scratch) {
  using T = typename Products::Number;
  const int64_t width = head.width;
  const auto cut = [&scratch](int64_t n) { return scratch += n, scratch - n; };
  BackwardTiles x;
  QueryTile tiles[attention_pass];
  x.row = Products::padded(width);
  x.dq_rows = Products::columns(width);
  for (QueryTile& q : tiles) q.dq = cut(tile * x.row);
  x.weight = cut(tile * (tile + 16)), x.dscore = cut(tile * (tile + 16));
  const int64_t sums = (head.keys + 16) * x.row;
  x.dk = cut(sums), x.dv = cut(sums);
  Products products(head, cut);
  if (g.first) {
    zero(x.dk, 2 * sums);
    products.load_all(larger(0, last_key(head, 0, head.queries - 1)));
  }
  for (int64_t t = 0; t < head.queries; t += attention_pass * tile) backward_pass(x, tiles, products, g, t);
  if (g.dadditive != nullptr)
    for (int64_t d = 0; d < width; ++d) g.dadditive[d] = sum(load(products.dw + d * lanes));
  if (!g.last) return;
  if (g.dk.to != nullptr) write_rows<T>(g.dk, x.dk, x.row, head.keys, width, head.scale);
  if (g.dv.to != nullptr) write_rows<T>(g.dv, x.dv, x.row, head.keys, width, 1);
}

}  // namespace

void attention_backward_head(const AttentionHead& head, const AttentionGradient& g, float* scratch) {
#if defined(QUERN_AMX)
  if (head.half && head.additive == nullptr) return backward_head<AmxBackward>(head, g, scratch);
#endif
  if (head.half) return backward_head<VectorBackward<uint16_t>>(head, g, scratch);
  backward_head<VectorBackward<float>>(head, g, scratch);
}

}  // namespace quern::kernels::QUERN_LEVEL
