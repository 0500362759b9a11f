#include "attention_products.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

constexpr int64_t heads_together = 4;  // of a group, for one query

/// Asks for the keys and values [begin, begin + panel), as far as they are below `end`.
template <class T>
QUERN_INLINE void prefetch_keys(const AttentionHead& head, int64_t begin, int64_t end) {
  prefetch_rows(as<T>(head.k) + begin * head.k_stride, head.k_stride, smaller(panel, end - begin),
                head.width);
  prefetch_rows(as<T>(head.v) + begin * head.v_stride, head.v_stride, smaller(panel, end - begin),
                head.width);
}

/// The state of the online softmax of a panel of queries.
struct Running {
  float largest[panel], total[panel];
  float keep[panel];  // by what the last step scales all that was added up before it
  bool fresh = true;  // nothing was added up yet
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

/// What is left to do for query t's sum of weights: 1 / total and the natural logsumexp. No total: nothing
/// was seen, which gives 0 and -inf; or every score was -inf, which is no number to divide by.
QUERN_INLINE float finish_row(const AttentionHead& head, int64_t t, float largest_score, float total,
                              float* lse) {
  if (total != 0) {
    *lse = largest_score / log2_e + __builtin_logf(total);
    return 1 / total;
  }
  const int64_t begin = larger(0, span_begin(head, t)), end = span_end(head, t);
  const bool sees = end > begin || smaller(head.globals, end) > 0;
  *lse = sees ? __builtin_nanf("") : -__builtin_inff();
  return sees ? __builtin_nanf("") : 0;
}

/// Queries [begin, end), at most as many as Products holds.
template <class Products>
void forward_panels(const AttentionHead& head, const AttentionOutput& to, int64_t begin, int64_t end) {
  using T = typename Products::Number;
  const int64_t panels = (end - begin + panel - 1) / panel;
  Products x(head);
  alignas(64) float score[tile * panel];
  Running state[tile / panel];
  for (int64_t p = 0; p < panels; ++p) {
    x.load_queries(p, begin + p * panel, end);
    for (int i = 0; i < panel; ++i) state[p].largest[i] = -__builtin_inff(), state[p].total[i] = 0;
  }
  const int64_t keys_end = last_key(head, begin, end - 1);
  for (int64_t s = next_key(head, begin, 0), keys = 0; s < keys_end; s = next_key(head, begin, s + keys)) {
    keys = tile_keys(head, begin, s, x.most_keys, keys_end);
    x.load_tile(s, keys, begin);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t first = begin + p * panel, last = smaller(first + panel, end) - 1;
      // Of the tile, the panel sees something of the keys [from, from + seen).
      const int64_t from = panel_from(head, first, s);
      const int64_t seen = smaller(keys, last_key(head, first, last) - s) - from;
      if (seen <= 0) continue;
      x.scores(score, p, from, seen);
      prefetch_keys<T>(head, s + x.most_keys + p * panel, keys_end);
      add_bias(score, panel, head, first, s + from, seen);
      hide(score, panel, head, first, s + from, seen);
      softmax_step(score, seen, state[p]);
      if (head.dropout.threshold != 0)
        for_each_dropped(head.dropout, first, s + from, seen, panel,
                         [&](int64_t at, vf factor) { store(score + at, load(score + at) * factor); });
      x.add_values(p, from, seen, score, state[p].fresh ? nullptr : state[p].keep);
      state[p].fresh = false;
    }
  }
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = begin + p * panel, count = smaller(panel, end - first);
    if (state[p].fresh) zero(x.out + p * x.size, x.size);
    float scale[panel] = {};
    for (int64_t i = 0; i < count; ++i)
      scale[i] = finish_row(head, first + i, state[p].largest[i], state[p].total[i], to.lse + first + i);
    unpack_columns(static_cast<T*>(to.out) + first * to.stride, to.stride, count, head.width,
                   x.out + p * x.size, scale, 0);
  }
}

/// score(s) = sum_d q(d) k(s,d) for keys [0, keys), written in whole vectors; q holds `width` numbers and
/// zeros.
template <class T>
void row_scores(float* score, const float* q, const T* k, int64_t stride, int64_t keys, int64_t width) {
  const int64_t whole = width / lanes * lanes;
  for (int64_t s = 0; s < keys; s += lanes) {
    const T* row[lanes];
    for (int i = 0; i < lanes; ++i) row[i] = k + smaller(s + i, keys - 1) * stride;  // never behind the last
    vf dot[lanes] = {};
    for (int64_t d = 0; d < whole; d += lanes) {
      const vf x = load(q + d);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) dot[i] += x * load(row[i] + d);
    }
    if (whole < width)
      for (int i = 0; i < lanes; ++i) dot[i] += load(q + whole) * load_part(row[i] + whole, width - whole);
    store(score + s, sums_of(dot));
  }
}

/// out(d) = keep out(d) + sum_s weight(s) v(s,d).
template <class T>
void row_values(float* out, const float* weight, const T* v, int64_t stride, int64_t keys, int64_t width,
                const float* keep) {
  const Strided row = {weight, 0, 1};
  int64_t d = 0;
  for (; d + 4 * lanes <= width; d += 4 * lanes)
    block_product<1, 4>(out + d, 0, row, v + d, stride, keys, keep);
  for (; d + lanes <= width; d += lanes) block_product<1, 1>(out + d, 0, row, v + d, stride, keys, keep);
  for (; d < width; ++d) {
    float total = out[d] * keep[0];
    for (int64_t s = 0; s < keys; ++s) total += weight[s] * load_part(v + s * stride + d, 1)[0];
    out[d] = total;
  }
}

/// One query of one head without dropout: there the lanes hold keys, then D.
struct RowState {
  alignas(64) float q[attention_max_width + lanes], out[attention_max_width];  // zeros beyond D
  float largest, total, slope;
  int64_t of;  // the head of the group
};

/// The keys [begin, begin + keys) join a query's sums.
template <class T>
void add_keys(RowState& row, const AttentionHead& head, int64_t t, int64_t begin, int64_t keys) {
  alignas(64) float score[tile];
  const T* k = as<T>(head.k) + begin * head.k_stride;
  if (head.additive != nullptr)
    additive_row_scores(score, head, row.of, row.q, k, keys);
  else
    row_scores(score, row.q, k, head.k_stride, keys, head.width);
  if (row.slope != 0)
    for (int64_t s = 0; s < keys; ++s)
      score[s] += row.slope * static_cast<float>(distance_of(head, t, begin + s));
  for (int64_t s = keys; s < tile; ++s) score[s] = -__builtin_inff();
  vf m = broadcast(row.largest);
  for (int64_t s = 0; s < tile; s += lanes) m = max(load(score + s), m);
  const float now = largest(m), base = now == -__builtin_inff() ? 0 : now;
  vf added = vf{};
  for (int64_t s = 0; s < tile; s += lanes) {
    const vf weight = exp2(load(score + s) - base);
    store(score + s, weight);
    added += weight;
  }
  float keep[4 * lanes];
  for (int i = 0; i < 4; ++i) store(keep + i * lanes, exp2(broadcast(row.largest - base)));
  row_values(row.out, score, as<T>(head.v) + begin * head.v_stride, head.v_stride, keys, head.width, keep);
  row.total = row.total * keep[0] + sum(added);
  row.largest = now;
}

/// Query t of the heads [first, first + count) of the group: a tile of keys stays in the first cache for all.
template <class T>
void forward_row(const AttentionHead& head, const AttentionOutput& to, int64_t t, int64_t first,
                 int64_t count) {
  const AttentionGroup& group = head.group;
  const int64_t width = head.width, keys_begin = span_begin(head, t), keys_end = span_end(head, t);
  RowState rows[heads_together];
  for (int64_t g = 0; g < count; ++g) {
    RowState& row = rows[g];
    __builtin_memset(&row, 0, sizeof row);
    row.largest = -__builtin_inff();
    row.slope = slope_of(head, first + g);
    row.of = first + g;
    copy_rows(row.q, width, as<T>(head.q) + t * head.q_stride + (first + g) * group.q_stride, head.q_stride,
              1, width, query_scale(head));
  }
  const auto read = [&](int64_t from, int64_t end) QUERN_LAMBDA {
    for (int64_t begin = from; begin < end; begin += tile)
      for (int64_t g = 0; g < count; ++g) add_keys<T>(rows[g], head, t, begin, smaller(tile, end - begin));
  };
  read(0, smaller(head.globals, smaller(keys_begin, keys_end)));
  read(larger(0, keys_begin), keys_end);
  for (int64_t g = 0; g < count; ++g)
    copy_rows(
        static_cast<T*>(to.out) + t * to.stride + (first + g) * group.out_stride, to.stride, rows[g].out,
        width, 1, width,
        finish_row(head, t, rows[g].largest, rows[g].total, to.lse + t + (first + g) * group.lse_stride));
}

template <class Products>
void forward_tile(const AttentionHead& head, const AttentionOutput& to, int64_t begin, int64_t end) {
  if (end - begin <= attention_few_queries && head.dropout.threshold == 0) {
    const int64_t heads = head.group.count;
    for (int64_t t = begin; t < end; ++t)
      for (int64_t h = 0; h < heads; h += heads_together)
        forward_row<typename Products::Number>(head, to, t, h, smaller(heads_together, heads - h));
    return;
  }
  const int64_t step = columns_size / Products::padded(head.width) / panel * panel;
  for (int64_t t = begin; t < end; t += step) forward_panels<Products>(head, to, t, smaller(t + step, end));
}

}  // namespace

void attention_forward_tile(const AttentionHead& head, const AttentionOutput& to, int64_t begin,
                            int64_t end) {
#if defined(QUERN_AMX)
  if (head.half && head.additive == nullptr) return forward_tile<AmxForward>(head, to, begin, end);
#endif
  if (head.half) return forward_tile<VectorForward<uint16_t>>(head, to, begin, end);
  forward_tile<VectorForward<float>>(head, to, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
