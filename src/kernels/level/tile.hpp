// Small dense products in registers, and moving rows into the lanes of vectors and back. Included only by
// src/kernels/level/*.cpp.
#pragma once

#include "simd.hpp"

namespace quern::kernels::QUERN_LEVEL {

constexpr int panel = 2 * lanes;  // the columns that a product holds in registers
#if QUERN_LANES == 16
constexpr int block_rows = 12;  // 24 accumulators of 32 registers
#else
constexpr int block_rows = 6;  // 12 accumulators of 16 registers
#endif

/// A(i,k) = data[i * row + k * col].
struct Strided {
  const float* data;
  int64_t row, col;
};

/// C(i,j) = sum_k A(i,k) B(k,j) + keep(j) C(i,j) for R rows and V vectors of columns; without `keep`, C is
/// only written.
template <int R, int V, class B>
QUERN_INLINE void block_product(float* c, int64_t ldc, Strided a, const B* b, int64_t ldb, int64_t depth,
                                const float* keep) {
  vf total[R][V] = {};
  for (int64_t k = 0; k < depth; ++k) {
    vf row[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) row[j] = load(b + k * ldb + j * lanes);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      const float x = a.data[i * a.row + k * a.col];  // the product broadcasts it
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) total[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      float* to = c + i * ldc + j * lanes;
      store(to, keep ? total[i][j] + load(keep + j * lanes) * load(to) : total[i][j]);
    }
}

/// block_product for any number of rows up to block_rows.
template <int R, int V>
QUERN_INLINE void some_rows(int64_t rows, float* c, int64_t ldc, Strided a, const float* b, int64_t ldb,
                            int64_t depth, const float* keep) {
  if (rows == R) return block_product<R, V>(c, ldc, a, b, ldb, depth, keep);
  if constexpr (R > 1) some_rows<R - 1, V>(rows, c, ldc, a, b, ldb, depth, keep);
}

/// C = A B + keep C on V vectors of columns: C is (rows, V * lanes), A (rows, depth), B (depth, V * lanes).
template <int V>
static void product(float* c, int64_t ldc, int64_t rows, Strided a, const float* b, int64_t ldb,
                    int64_t depth, const float* keep) {
  while (rows > 0) {
    // Short blocks leave the multipliers waiting, so the last two share what is left.
    const int64_t n = rows >= block_rows + block_rows / 2 || rows == block_rows ? block_rows
                      : rows > block_rows                                       ? (rows + 1) / 2
                                                                                : rows;
    some_rows<block_rows, V>(n, c, ldc, a, b, ldb, depth, keep);
    c += n * ldc;
    a.data += n * a.row;
    rows -= n;
  }
}

/// C = A B, or C += A B: C is (rows, cols), A (rows, depth), B (depth, cols); cols is a multiple of `lanes`.
static inline void wide_product(float* c, int64_t ldc, int64_t rows, Strided a, const float* b, int64_t ldb,
                                int64_t cols, int64_t depth, bool add) {
  float ones[panel];
  for (float& one : ones) one = 1;
  const float* keep = add ? ones : nullptr;
  int64_t j = 0;
  for (; j + panel <= cols; j += panel) product<2>(c + j, ldc, rows, a, b + j, ldb, depth, keep);
  if (j < cols) product<1>(c + j, ldc, rows, a, b + j, ldb, depth, keep);
}

template <int...>
struct Lanes {};

/// One step of a transpose: in each pair of rows (i, i + Step), exchanges the off-diagonal Step x Step
/// blocks.
template <int Step, int... I>
QUERN_INLINE void exchange(vf* r, Lanes<I...>) {
  const vi upper = {((I & Step) ? lanes + I - Step : I)...};
  const vi lower = {((I & Step) ? lanes + I : I + Step)...};
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i)
    if (!(i & Step)) {
      const vf x = r[i], y = r[i + Step];
      r[i] = __builtin_shuffle(x, y, upper);
      r[i + Step] = __builtin_shuffle(x, y, lower);
    }
}

/// Transposes lanes x lanes numbers in place.
template <int N = lanes>
QUERN_INLINE void transpose(vf* r) {
  using All = Lanes<__integer_pack(N)...>;
  exchange<1>(r, All{});
  exchange<2>(r, All{});
#if QUERN_LANES >= 8
  exchange<4>(r, All{});
#endif
#if QUERN_LANES >= 16
  exchange<8>(r, All{});
#endif
}

/// Lane i: the sum of r[i]'s lanes. Overwrites r.
QUERN_INLINE vf sums_of(vf* r) {
  transpose(r);
#pragma GCC unroll 4
  for (int n = lanes / 2; n > 0; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) r[i] += r[i + n];
  return r[0];
}

/// to(t, d) = scale * rows(t, d). Each side, here and below: floats, or bfloat16.
template <class To, class From>
static inline void copy_rows(To* to, int64_t to_stride, const From* rows, int64_t stride, int64_t count,
                             int64_t width, float scale) {
  for (int64_t t = 0; t < count; ++t, to += to_stride, rows += stride) {
    int64_t d = 0;
    for (; d + lanes <= width; d += lanes) store(to + d, load(rows + d) * scale);
    if (d < width) store_part(to + d, load_part(rows + d, width - d) * scale, width - d);
  }
}

/// Asks memory for rows that will be needed soon; their strides are too wide for the processor to guess.
template <class T>
QUERN_INLINE void prefetch_rows(const T* rows, int64_t stride, int64_t count, int64_t width) {
  for (int64_t t = 0; t < count; ++t)
    for (int64_t d = 0; d < width; d += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(rows + t * stride + d);
}

/// to(d, t) = scale * rows(t, d): `count` <= panel rows of `width` numbers become columns of a (width, panel)
/// block, whose rows are `ld` apart; missing rows become 0.
template <class T>
static inline void pack_columns(float* to, const T* rows, int64_t stride, int64_t count, int64_t width,
                                float scale, int64_t ld = panel) {
  for (int64_t first = 0; first < panel; first += lanes)
    for (int64_t d = 0; d < width; d += lanes) {
      const int64_t n = width - d < lanes ? width - d : lanes;
      vf r[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const T* from = rows + (first + i) * stride + d;
        r[i] = first + i >= count ? vf{} : n == lanes ? load(from) : load_part(from, n);
      }
      transpose(r);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        if (i < n) store(to + (d + i) * ld + first, r[i] * scale);
    }
}

/// rows(t, d) = scale(t) * from(d, t) + beta * rows(t, d): the way back. beta = 0 does not read.
template <class T>
static inline void unpack_columns(T* rows, int64_t stride, int64_t count, int64_t width, const float* from,
                                  const float* scale, float beta, int64_t ld = panel) {
  for (int64_t first = 0; first < count; first += lanes)
    for (int64_t d = 0; d < width; d += lanes) {
      const int64_t n = width - d < lanes ? width - d : lanes;
      vf r[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        r[i] = i < n ? load(from + (d + i) * ld + first) * load(scale + first) : vf{};
      transpose(r);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        if (first + i < count) {
          T* to = rows + (first + i) * stride + d;
          if (n == lanes)
            store(to, beta == 0 ? r[i] : r[i] + beta * load(to));
          else
            store_part(to, beta == 0 ? r[i] : r[i] + beta * load_part(to, n), n);
        }
    }
}

/// 2^x for x <= 0, within 3e-7 of itself; 0 below -126.5 and for -inf; a NaN stays one.
QUERN_INLINE vf exp2(vf x) {
  const vf low = broadcast(-127);
  x = low > x ? low : x;                              // in this order a NaN passes
  const vf shifted = x + 0x1.8p23f;                   // rounds to an integer in the low bits
  const vf f = x - (shifted - 0x1.8p23f);             // in [-1/2, 1/2]
  const vf power = (vf)(((vu)shifted + 127U) << 23);  // 2^(x - f); 0 for -127
  vf p = broadcast(0.0013264717f);                    // minimax for (2^f - 1) / f, relative to 2^f: 9.2e-8
  p = p * f + 0.009671513f;
  p = p * f + 0.05550734f;
  p = p * f + 0.24022242f;
  p = p * f + 0.693147f;
  return (p * f + 1.0f) * power;
}

}  // namespace quern::kernels::QUERN_LEVEL
