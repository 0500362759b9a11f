#include "linear_attention.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

struct BackwardTiles {
  float *key_phi, *query_phi, *dphi;  // (M, chunk)
  float *x, *dx;                      // (D, chunk): queries or keys, and their gradient
  float *v, *dv;                      // (D, chunk)
  float *v_rows, *g_rows;             // (chunk, padded D)
  float* g;                           // (D, chunk)
  float *a, *da;                      // (chunk, chunk)
  float* delta;                       // (group,T)
  float* largest;                     // of each chunk of keys
};

template <class T>
const T* dout_of(const LinearAttentionGradient& g, int64_t h, int64_t t) {
  return as<T>(g.dout) + h * g.dout_head + t * g.dout_stride;
}

/// 1 / den of a chunk's queries; 0 for one that sees nothing, or is not there.
void inverse_sums(float* inverse, const LinearAttentionHead& head, const LinearAttentionGradient& g,
                  int64_t h, const Chunk& c) {
  for (int64_t i = 0; i < chunk; ++i) {
    const float den = i < c.count ? g.den[h * head.queries + c.first + i] : 0;
    inverse[i] = den == 0 ? 0 : 1 / den;
  }
}

template <class T>
void load_query_features(const BackwardTiles& x, const LinearAttentionHead& head, int64_t h, const Chunk& c) {
  load_columns(x.x, as<T>(head.q) + h * head.q_head, head.q_stride, c, head.width, input_scale(head));
  query_features(x.query_phi, head, x.x, c);
}

template <class T>
void load_key_features(const BackwardTiles& x, const LinearAttentionHead& head, const Sums& sums,
                       const Chunk& c, bool raise) {
  load_columns(x.x, as<T>(head.k), head.k_stride, c, head.width, input_scale(head));
  key_features(x.key_phi, head, x.x, c, sums, raise);
}

/// dphi becomes the gradient of x, which is written to dx (D, chunk): the way back through the features.
void through_features(const BackwardTiles& x, const LinearAttentionHead& head, const float* phi,
                      const Chunk& c, bool keys) {
  const bool elu = head.directions == nullptr;
  float* to = elu ? x.dx : x.dphi;
  for (int64_t m = 0; m < head.features; ++m)
    each_vector(c, [&](int64_t j) QUERN_LAMBDA {
      const int64_t at = m * chunk + j;
      const vf p = load(phi + at);
      store(to + at, load(x.dphi + at) * (elu ? min(p, broadcast(1)) : p));
    });
  if (elu) return;
  wide_product(x.dx, chunk, head.width, {head.directions, 1, head.width}, x.dphi, chunk, c.cols,
               head.features, false);
  if (!keys) return;
  each_vector(c, [&](int64_t j) QUERN_LAMBDA {
    vf total = {};
    for (int64_t m = 0; m < head.features; ++m) total += load(x.dphi + m * chunk + j);
    for (int64_t d = 0; d < head.width; ++d) {
      const int64_t at = d * chunk + j;
      store(x.dx + at, load(x.dx + at) - load(x.x + at) * total);
    }
  });
}

/// a(r, lane) -= by(r).
QUERN_INLINE void subtract_rows(float* a, int64_t rows, const float* by, const Chunk& c) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector(c,
                [&](int64_t j) QUERN_LAMBDA { store(a + r * chunk + j, load(a + r * chunk + j) - by[r]); });
}

/// With dphi the sums over keys of a query's weights' gradients but for delta, delta follows: their mean.
/// From `out` it would come with out's rounding, which near features leave nothing but.
void find_delta(float* delta, const BackwardTiles& x, const LinearAttentionHead& head, const float* inverse,
                const Chunk& c) {
  each_vector(c, [&](int64_t j) QUERN_LAMBDA {
    vf total = {};
    for (int64_t m = 0; m < head.features; ++m)
      total += load(x.query_phi + m * chunk + j) * load(x.dphi + m * chunk + j);
    store(delta + j, total * load(inverse + j));
  });
}

/// dphi(m) -= delta z(m), where z counts the chunk's own `inside` keys up to each query.
void subtract_delta(const BackwardTiles& x, const LinearAttentionHead& head, const Sums& sums,
                    const float* delta, const Chunk& c, int64_t inside) {
  for (int64_t m = 0; m < head.features; ++m)
    each_vector(c, [&](int64_t j) QUERN_LAMBDA {
      store(x.dphi + m * chunk + j, load(x.dphi + m * chunk + j) - sums.z[m] * load(delta + j));
    });
  if (inside == 0) return;
  for (int64_t s = 0; s < inside; ++s)
    each_vector(c, [&](int64_t j) QUERN_LAMBDA { store(x.da + s * chunk + j, -load(delta + j)); });
  hide_triangle<true>(x.da, inside, c);
  wide_product(x.dphi, chunk, head.features, {x.key_phi, chunk, 1}, x.da, chunk, c.cols, inside, true);
}

/// delta of a chunk's queries of one head and, where wanted, their gradient, from the sums and the chunk's
/// own `inside` keys.
template <class T>
void query_gradient(const BackwardTiles& x, const LinearAttentionHead& head, const LinearAttentionGradient& g,
                    const Sums& sums, const Chunk& c, int64_t h, int64_t inside) {
  float inverse[chunk], delta[chunk], scale[chunk];
  inverse_sums(inverse, head, g, h, c);
  load_query_features<T>(x, head, h, c);
  load_columns(x.g, dout_of<T>(g, h, 0), g.dout_stride, c, head.width, 1);
  each_vector(c, [&](int64_t j) QUERN_LAMBDA {
    for (int64_t d = 0; d < head.width; ++d)
      store(x.g + d * chunk + j, load(x.g + d * chunk + j) * load(inverse + j));
  });
  wide_product(x.dphi, chunk, head.features, {sums.s, head.padded, 1}, x.g, chunk, c.cols, head.width, false);
  if (inside > 0) {
    wide_product(x.da, chunk, inside, {x.v_rows, head.padded, 1}, x.g, chunk, c.cols, head.width, false);
    hide_triangle<true>(x.da, inside, c);
    wide_product(x.dphi, chunk, head.features, {x.key_phi, chunk, 1}, x.da, chunk, c.cols, inside, true);
  }
  find_delta(delta, x, head, inverse, c);
  __builtin_memcpy(x.delta + h * head.queries + c.first, delta, static_cast<unsigned long>(c.count) * 4);
  if (g.dq.to == nullptr) return;
  subtract_delta(x, head, sums, delta, c, inside);
  through_features(x, head, x.query_phi, c, false);
  for (float& one : scale) one = input_scale(head);
  write_columns(static_cast<T*>(g.dq.to) + h * g.dq_head, g.dq.stride, c, head.width, x.dx, scale, g.dq.beta);
}

/// Along the sequence: dq and delta, and what the sums' largest exponent is at each chunk.
template <class T>
void along(const BackwardTiles& x, const LinearAttentionHead& head, const LinearAttentionGradient& g,
           const Sums& sums) {
  float ones[chunk];
  for (float& one : ones) one = 1;
  const auto load_chunk = [&](const Chunk& c) {
    load_key_features<T>(x, head, sums, c, true);
    copy_rows(x.v_rows, head.padded, as<T>(head.v) + c.first * head.v_stride, head.v_stride, c.count,
              head.width, 1);
    x.largest[c.first / chunk] = *sums.largest;
  };
  clear(head, sums);
  for (int64_t s = 0; !head.causal && s < head.visible; s += chunk) {
    const Chunk c = chunk_at(s, head.visible);
    load_chunk(c);
    add_to_sums(head, sums, x.key_phi, x.v_rows, ones, c);
  }
  for (int64_t t = 0; t < head.queries; t += chunk) {
    const Chunk queries = chunk_at(t, head.queries), own = chunk_at(t, head.causal ? head.visible : 0);
    if (own.count > 0) load_chunk(own);
    for (int64_t h = 0; h < head.group; ++h) query_gradient<T>(x, head, g, sums, queries, h, own.count);
    if (own.count > 0) add_to_sums(head, sums, x.key_phi, x.v_rows, ones, own);
  }
}

/// A chunk's queries of one head join R and r; with keys inside the chunk, in lanes, their gradients get
/// their part first.
template <class T>
void join_queries(const BackwardTiles& x, const LinearAttentionHead& head, const LinearAttentionGradient& g,
                  const Sums& sums, const Chunk& c, int64_t h, const Chunk& inside) {
  float inverse[chunk], delta[chunk] = {};
  inverse_sums(inverse, head, g, h, c);
  __builtin_memcpy(delta, x.delta + h * head.queries + c.first, static_cast<unsigned long>(c.count) * 4);
  for (int64_t i = 0; i < c.count; ++i)
    copy_rows(x.g_rows + i * head.padded, head.padded, dout_of<T>(g, h, c.first + i), g.dout_stride, 1,
              head.width, inverse[i]);
  load_query_features<T>(x, head, h, c);
  if (inside.count > 0) {
    wide_product(x.a, chunk, c.count, {x.query_phi, 1, chunk}, x.key_phi, chunk, inside.cols, head.features,
                 false);
    wide_product(x.da, chunk, c.count, {x.g_rows, head.padded, 1}, x.v, chunk, inside.cols, head.width,
                 false);
    subtract_rows(x.da, c.count, delta, inside);
    hide_triangle<false>(x.a, c.count, inside);
    hide_triangle<false>(x.da, c.count, inside);
    wide_product(x.dphi, chunk, head.features, {x.query_phi, chunk, 1}, x.da, chunk, inside.cols, c.count,
                 true);
    wide_product(x.dv, chunk, head.width, {x.g_rows, 1, head.padded}, x.a, chunk, inside.cols, c.count, true);
  }
  add_to_sums(head, sums, x.query_phi, x.g_rows, delta, c);
}

/// What R and r give to the keys of a chunk and their values.
template <class T>
void begin_keys(const BackwardTiles& x, const LinearAttentionHead& head, const Sums& sums, const Chunk& c) {
  load_columns(x.v, as<T>(head.v), head.v_stride, c, head.width, 1);
  load_key_features<T>(x, head, sums, c, false);
  wide_product(x.dphi, chunk, head.features, {sums.s, head.padded, 1}, x.v, chunk, c.cols, head.width, false);
  subtract_rows(x.dphi, head.features, sums.z, c);
  wide_product(x.dv, chunk, head.width, {sums.s, 1, head.padded}, x.key_phi, chunk, c.cols, head.features,
               false);
}

/// Writes dk and dv of the rows of a chunk, of which `c` holds the keys that are seen; others get 0.
template <class T>
void finish_keys(const BackwardTiles& x, const LinearAttentionHead& head, const LinearAttentionGradient& g,
                 const Chunk& rows, const Chunk& c) {
  float scale[chunk];
  if (g.dk.to != nullptr) {
    load_columns(x.x, as<T>(head.k), head.k_stride, c, head.width, input_scale(head));
    through_features(x, head, x.key_phi, c, true);
    for (float& one : scale) one = input_scale(head);
    write_columns(static_cast<T*>(g.dk.to), g.dk.stride, rows, head.width, x.dx, scale, g.dk.beta);
  }
  for (float& one : scale) one = 1;
  if (g.dv.to != nullptr)
    write_columns(static_cast<T*>(g.dv.to), g.dv.stride, rows, head.width, x.dv, scale, g.dv.beta);
}

/// Against the sequence: dk and dv, the sums being R and r.
template <class T>
void against(const BackwardTiles& x, const LinearAttentionHead& head, const LinearAttentionGradient& g,
             const Sums& sums) {
  const Chunk nothing = {0, 0, 0};
  clear(head, sums);
  for (int64_t t = 0; !head.causal && t < head.queries; t += chunk)
    for (int64_t h = 0; h < head.group; ++h)
      join_queries<T>(x, head, g, sums, chunk_at(t, head.queries), h, nothing);
  const int64_t chunks = (head.visible + chunk - 1) / chunk;
  for (int64_t i = (head.keys + chunk - 1) / chunk - 1; i >= 0; --i) {
    const Chunk rows = chunk_at(i * chunk, head.keys);
    // The lanes are those of the rows, the tokens those that are seen.
    const Chunk c = {rows.first, chunk_at(rows.first, head.visible).count, rows.cols};
    if (head.directions != nullptr && i < chunks) {
      const int64_t last = head.causal ? i : chunks - 1;
      if (head.causal && i + 1 < chunks)
        scale_sums(head, sums, exp(broadcast(x.largest[i] - x.largest[i + 1]))[0]);
      *sums.largest = x.largest[last];
    }
    begin_keys<T>(x, head, sums, c);
    for (int64_t h = 0; head.causal && h < head.group; ++h)
      join_queries<T>(x, head, g, sums, chunk_at(i * chunk, head.queries), h, c);
    finish_keys<T>(x, head, g, rows, c);
  }
}

template <class T>
void backward_head(const LinearAttentionHead& head, const LinearAttentionGradient& g, float* scratch) {
  BackwardTiles x;
  const auto cut = [&scratch](int64_t n) { return scratch += n, scratch - n; };
  const int64_t features = head.features * chunk, numbers = head.padded * chunk;
  x.key_phi = cut(features), x.query_phi = cut(features), x.dphi = cut(features);
  x.x = cut(numbers), x.dx = cut(numbers), x.v = cut(numbers), x.dv = cut(numbers), x.g = cut(numbers);
  x.v_rows = cut(numbers), x.g_rows = cut(numbers);
  x.a = cut(chunk * chunk), x.da = cut(chunk * chunk);
  const Sums sums = sums_at(head, cut(linear_state_size(head.features, head.padded)));
  x.delta = cut(head.group * head.queries), x.largest = cut(0);
  zero(x.v_rows, 2 * numbers);  // both rows' padding of D
  along<T>(x, head, g, sums);
  if (g.dk.to != nullptr || g.dv.to != nullptr) against<T>(x, head, g, sums);
}

}  // namespace

void linear_attention_backward_head(const LinearAttentionHead& head, const LinearAttentionGradient& g,
                                    float* scratch) {
  if (head.half) return backward_head<uint16_t>(head, g, scratch);
  backward_head<float>(head, g, scratch);
}

}  // namespace quern::kernels::QUERN_LEVEL
