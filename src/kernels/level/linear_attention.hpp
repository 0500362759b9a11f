// What linear attention's forward and backward share: features and running sums. Included only by
// src/kernels/level/*.cpp.
//
// A chunk's tokens lie in the lanes of vectors: features are (M, tile) blocks, queries, keys and their
// gradients (D, tile) blocks, so that sums over features and over D have no sums across lanes. Tokens that
// are not there have features of 0.
#pragma once

#include "../linear_attention_level.hpp"
#include "attention.hpp"
#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {

static_assert(linear_tile % panel == 0);
constexpr int64_t chunk = linear_tile;

/// The running sums of a head.
struct Sums {
  float *s, *z;    // (M, padded D), (M)
  float* largest;  // the exponent that features are relative to; -inf before the first key
};

QUERN_INLINE Sums sums_at(const LinearAttentionHead& head, float* state) {
  float* z = state + head.features * head.padded;
  return {state, z, z + head.features};
}

QUERN_INLINE void clear(const LinearAttentionHead& head, const Sums& sums) {
  zero(sums.s, head.features * (head.padded + 1));
  *sums.largest = -__builtin_inff();
}

QUERN_INLINE void scale_sums(const LinearAttentionHead& head, const Sums& sums, float by) {
  for (int64_t i = 0; i < head.features * (head.padded + 1); ++i) sums.s[i] *= by;
}

/// Features before `largest` are from now on relative to `now`.
QUERN_INLINE void raise_largest(const LinearAttentionHead& head, const Sums& sums, float now) {
  if (!(now > *sums.largest)) return;
  scale_sums(head, sums, exp(broadcast(*sums.largest - now))[0]);
  *sums.largest = now;
}

/// The tokens of a chunk: `count` of them, in `cols` lanes, a multiple of the panel.
struct Chunk {
  int64_t first, count, cols;
};

QUERN_INLINE Chunk chunk_at(int64_t first, int64_t end) {
  const int64_t count = larger(0, smaller(chunk, end - first));
  return {first, count, (larger(count, 1) + panel - 1) / panel * panel};
}

/// f(j) for each vector of a chunk's lanes.
template <class F>
QUERN_INLINE void each_vector(const Chunk& c, F f) {
  for (int64_t j = 0; j < c.cols; j += lanes) f(j);
}

/// x (D, chunk) = the chunk's rows, transposed and scaled.
template <class T>
static inline void load_columns(float* x, const T* rows, int64_t stride, const Chunk& c, int64_t width,
                                float scale) {
  for (int64_t p = 0; p < c.cols; p += panel)
    pack_columns(x + p, rows + (c.first + p) * stride, stride, c.count - p, width, scale, chunk);
}

/// rows = scale * x + beta * rows, transposed; `scale` one number a lane.
template <class T>
static inline void write_columns(T* rows, int64_t stride, const Chunk& c, int64_t width, const float* x,
                                 const float* scale, float beta) {
  for (int64_t p = 0; p < c.count; p += panel)
    unpack_columns(rows + (c.first + p) * stride, stride, smaller(panel, c.count - p), width, x + p,
                   scale + p, beta, chunk);
}

/// What queries and keys are multiplied by before the features are made.
QUERN_INLINE float input_scale(const LinearAttentionHead& head) {
  return head.directions == nullptr ? 1
                                    : 1 / __builtin_sqrtf(__builtin_sqrtf(static_cast<float>(head.width)));
}

/// The lanes that hold no token become `fill`.
QUERN_INLINE vf only_tokens(vf x, const Chunk& c, int64_t j, float fill) {
  return lane_numbers() + static_cast<int32_t>(j) < static_cast<int32_t>(c.count) ? x : broadcast(fill);
}

/// phi (M, chunk) = elu(x) + 1; NaN for an infinite x.
static inline void elu_features(float* phi, const float* x, const Chunk& c, int64_t width) {
  for (int64_t m = 0; m < width; ++m)
    each_vector(c, [&](int64_t j) QUERN_LAMBDA {
      const vf v = load(x + m * chunk + j);
      const vf f = (v > 0 ? v + 1.0F : exp_below(v)) + nan_unless_finite(v);
      store(phi + m * chunk + j, only_tokens(f, c, j, 0));
    });
}

/// e (M, chunk) = w x, and the largest of each lane.
static inline void exponents(float* e, float* most, const LinearAttentionHead& head, const float* x,
                             const Chunk& c) {
  wide_product(e, chunk, head.features, {head.directions, head.width, 1}, x, chunk, c.cols, head.width,
               false);
  each_vector(c, [&](int64_t j) QUERN_LAMBDA {
    vf m = load(e + j);
    for (int64_t i = 1; i < head.features; ++i) m = max(load(e + i * chunk + j), m);
    store(most + j, m);
  });
}

/// phi = exp(phi - less), lane by lane; 0 where there is no token.
static inline void exponentials(float* phi, const float* less, const LinearAttentionHead& head,
                                const Chunk& c) {
  for (int64_t m = 0; m < head.features; ++m)
    each_vector(c, [&](int64_t j) QUERN_LAMBDA {
      float* at = phi + m * chunk + j;
      store(at, only_tokens(exp(load(at) - load(less + j)), c, j, 0));
    });
}

/// The features of queries x (D, chunk).
static inline void query_features(float* phi, const LinearAttentionHead& head, const float* x,
                                  const Chunk& c) {
  if (head.directions == nullptr) return elu_features(phi, x, c, head.width);
  float most[chunk];
  exponents(phi, most, head, x, c);
  exponentials(phi, most, head, c);
}

/// The features of keys x (D, chunk). `raise` lets the sums' largest exponent grow to theirs; else it is
/// what it was when they joined the sums.
static inline void key_features(float* phi, const LinearAttentionHead& head, const float* x, const Chunk& c,
                                const Sums& sums, bool raise) {
  if (head.directions == nullptr) return elu_features(phi, x, c, head.width);
  float most[chunk], less[chunk];
  exponents(phi, most, head, x, c);
  each_vector(c, [&](int64_t j) QUERN_LAMBDA {
    vf squares = {};
    for (int64_t d = 0; d < head.width; ++d) squares += load(x + d * chunk + j) * load(x + d * chunk + j);
    store(less + j, 0.5F * squares + nan_unless_finite(squares));
    store(most + j, only_tokens(load(most + j) - 0.5F * squares, c, j, -__builtin_inff()));
  });
  if (raise) {
    vf m = broadcast(-__builtin_inff());
    each_vector(c, [&](int64_t j) QUERN_LAMBDA { m = max(load(most + j), m); });
    raise_largest(head, sums, largest(m));
  }
  each_vector(c, [&](int64_t j) QUERN_LAMBDA { store(less + j, load(less + j) + *sums.largest); });
  exponentials(phi, less, head, c);
}

/// S += phi rows, z(m) += sum over the chunk of phi(m) * by: `rows` (count, padded D), `by` a number a lane.
static inline void add_to_sums(const LinearAttentionHead& head, const Sums& sums, const float* phi,
                               const float* rows, const float* by, const Chunk& c) {
  wide_product(sums.s, head.padded, head.features, {phi, chunk, 1}, rows, head.padded, head.padded, c.count,
               true);
  for (int64_t m = 0; m < head.features; ++m) {
    vf total = {};
    each_vector(c, [&](int64_t j) QUERN_LAMBDA { total += load(phi + m * chunk + j) * load(by + j); });
    sums.z[m] += sum(total);
  }
}

/// Hides what a query may not see inside a chunk, lanes against rows: a row's token must not come after the
/// lane's (keys in rows), or not before it (queries in rows).
template <bool KeysInRows>
QUERN_INLINE void hide_triangle(float* a, int64_t rows, const Chunk& c) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector(c, [&](int64_t j) QUERN_LAMBDA {
      const vi lane = lane_numbers() + static_cast<int32_t>(j);
      const vi sees = KeysInRows ? lane >= static_cast<int32_t>(r) : lane <= static_cast<int32_t>(r);
      store(a + r * chunk + j, sees ? load(a + r * chunk + j) : vf{});
    });
}

}  // namespace quern::kernels::QUERN_LEVEL
