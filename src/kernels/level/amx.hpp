// Products of bfloat16 blocks by AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2,
// TDPBF16PS): eight registers of 16 rows of 64 bytes each. One instruction does
//
//   C(m,n) += A(m,2k) B(2k,n) + A(m,2k+1) B(2k+1,n)     C (16,16) floats, A (16,32), B (32,16) bfloat16
//
// where a register holds A as it lies in memory and B as 16 rows of pairs: word n of row k is {B(2k,n),
// B(2k+1,n)}. With QUERN_AMX_EMULATED the registers are memory, for a test of all else that any processor
// can run. Included only by src/kernels/level/*.cpp.
#pragma once

#include "tile.hpp"

namespace quern::kernels::QUERN_LEVEL {

constexpr int64_t amx_rows = 16;   // of a register, and the columns of a block of floats
constexpr int64_t amx_depth = 32;  // numbers that one instruction sums over

QUERN_INLINE int64_t whole_rows(int64_t n) { return (n + amx_rows - 1) / amx_rows * amx_rows; }
QUERN_INLINE int64_t whole_depth(int64_t n) { return (n + amx_depth - 1) / amx_depth * amx_depth; }

#if defined(QUERN_AMX_EMULATED)

static thread_local float amx_register[8][amx_rows][16];

QUERN_INLINE void amx_begin() {}
QUERN_INLINE void amx_end() {}
template <int R>
QUERN_INLINE void amx_zero() {
  __builtin_memset(amx_register[R], 0, sizeof amx_register[R]);
}
template <int R>
QUERN_INLINE void amx_load(const void* from, int64_t stride) {
  for (int64_t i = 0; i < amx_rows; ++i)
    __builtin_memcpy(amx_register[R][i], static_cast<const char*>(from) + i * stride, 64);
}
template <int R>
QUERN_INLINE void amx_store(void* to, int64_t stride) {
  for (int64_t i = 0; i < amx_rows; ++i)
    __builtin_memcpy(static_cast<char*>(to) + i * stride, amx_register[R][i], 64);
}
QUERN_INLINE float amx_number(float word, int half) {
  uint32_t bits;
  __builtin_memcpy(&bits, &word, sizeof bits);
  bits = half == 0 ? bits << 16 : bits & 0xffff0000U;
  __builtin_memcpy(&word, &bits, sizeof bits);
  return word;
}
template <int C, int A, int B>
QUERN_INLINE void amx_multiply() {
  for (int m = 0; m < amx_rows; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n)
        for (int half = 0; half < 2; ++half)
          amx_register[C][m][n] +=
              amx_number(amx_register[A][m][k], half) * amx_number(amx_register[B][k][n], half);
}

#else

/// Sets all registers to their full size; amx_end() gives them back.
QUERN_INLINE void amx_begin() {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  // The whole block is the operand: GCC 12's intrinsic says that it reads 8 bytes of it.
  asm volatile("ldtilecfg %0" : : "m"(config));
}
QUERN_INLINE void amx_end() { asm volatile("tilerelease"); }
template <int R>
QUERN_INLINE void amx_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(R));
}
template <int R>
QUERN_INLINE void amx_load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(R), "r"(from), "r"(stride) : "memory");
}
template <int R>
QUERN_INLINE void amx_store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(R), "r"(to), "r"(stride) : "memory");
}
template <int C, int A, int B>
QUERN_INLINE void amx_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

#endif

/// R x V blocks of C (16,16 each) = A B, or C += A B: see amx_product.
template <int R, int V>
QUERN_INLINE void amx_blocks(float* c, int64_t ldc, const uint16_t* a, int64_t lda, const uint32_t* b,
                             int64_t ldb, int64_t depth, bool adds) {
  const auto each = [&](auto f) QUERN_LAMBDA {
    f.template operator()<0>(c);
    if constexpr (V > 1) f.template operator()<1>(c + 16);
    if constexpr (R > 1) f.template operator()<2>(c + amx_rows * ldc);
    if constexpr (R > 1 && V > 1) f.template operator()<3>(c + amx_rows * ldc + 16);
  };
  if (adds) {
    each([&]<int C>(float* at) QUERN_LAMBDA { amx_load<C>(at, ldc * 4); });
  } else {
    each([&]<int C>(float*) QUERN_LAMBDA { amx_zero<C>(); });
  }
  for (int64_t k = 0; k < depth; k += amx_depth) {
    amx_load<4>(a + k, lda * 2);
    amx_load<6>(b + k / 2 * ldb, ldb * 4);
    amx_multiply<0, 4, 6>();
    if constexpr (V > 1) {
      amx_load<7>(b + k / 2 * ldb + 16, ldb * 4);
      amx_multiply<1, 4, 7>();
    }
    if constexpr (R > 1) {
      amx_load<5>(a + k + amx_rows * lda, lda * 2);
      amx_multiply<2, 5, 6>();
    }
    if constexpr (R > 1 && V > 1) amx_multiply<3, 5, 7>();
  }
  each([&]<int C>(float* at) QUERN_LAMBDA { amx_store<C>(at, ldc * 4); });
}

/// C = A B, or with `adds` C += A B: C (rows, columns) floats, A (rows, depth) as it lies, B (depth, columns)
/// as pairs, word (k, n) at b[k * ldb + n]. Rows and columns are multiples of 16, depth of 32.
static void amx_product(float* c, int64_t ldc, int64_t rows, int64_t columns, const uint16_t* a, int64_t lda,
                        const uint32_t* b, int64_t ldb, int64_t depth, bool adds) {
  for (int64_t i = 0; i < rows; i += 2 * amx_rows)
    for (int64_t j = 0; j < columns; j += 32) {
      float* at = c + i * ldc + j;
      const uint16_t* left = a + i * lda;
      const bool two_rows = rows - i > amx_rows, two_columns = columns - j > 16;
      if (two_rows && two_columns) {
        amx_blocks<2, 2>(at, ldc, left, lda, b + j, ldb, depth, adds);
      } else if (two_rows) {
        amx_blocks<2, 1>(at, ldc, left, lda, b + j, ldb, depth, adds);
      } else if (two_columns) {
        amx_blocks<1, 2>(at, ldc, left, lda, b + j, ldb, depth, adds);
      } else {
        amx_blocks<1, 1>(at, ldc, left, lda, b + j, ldb, depth, adds);
      }
    }
}

/// As many bytes as there are, up to a vector; zeros behind them.
QUERN_INLINE vf load_words(const void* from, int64_t bytes) {
  vf v = {};
  if (bytes >= static_cast<int64_t>(sizeof v)) {
    __builtin_memcpy(&v, from, sizeof v);
  } else if (bytes > 0) {
    __builtin_memcpy(&v, from, static_cast<unsigned long>(bytes));
  }
  return v;
}

/// to(w, t) = word w of row t, for `count` rows of `bytes` bytes, `stride` bytes apart: a transpose whose
/// result has `words` rows of `columns` words, both multiples of 16, and zeros where there is nothing.
static void transpose_words(void* to, int64_t ld, int64_t words, int64_t columns, const void* rows,
                            int64_t stride, int64_t count, int64_t bytes) {
  for (int64_t t = 0; t < columns; t += lanes)
    for (int64_t w = 0; w < words; w += lanes) {
      vf r[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        r[i] = t + i < count
                   ? load_words(static_cast<const char*>(rows) + (t + i) * stride + 4 * w, bytes - 4 * w)
                   : vf{};
      transpose(r);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        __builtin_memcpy(static_cast<uint32_t*>(to) + (w + i) * ld + t, &r[i], sizeof r[i]);
    }
}

/// A row of bfloat16 numbers of either type, as the low halves of words.
QUERN_INLINE vu half_words(const uint16_t* p) {
  vh h;
  __builtin_memcpy(&h, p, sizeof h);
  return to_words(h);
}
QUERN_INLINE vu half_words(const float* p) { return to_words(narrow(load(p))); }

/// to(k, n) = {rows(2k, n), rows(2k + 1, n)} for `count` rows of `columns` numbers (a multiple of 16), floats
/// being rounded; zeros for the rows that are missing of `depth`.
template <class T>
static void pair_rows(uint32_t* to, int64_t ld, const T* rows, int64_t stride, int64_t count, int64_t columns,
                      int64_t depth) {
  for (int64_t k = 0; k < depth; k += 2, to += ld)
    for (int64_t n = 0; n < columns; n += lanes) {
      const T* from = rows + k * stride + n;
      const vu low = k < count ? half_words(from) : vu{};
      const vu high = k + 1 < count ? half_words(from + stride) : vu{};
      const vu words = low | (high << 16);
      __builtin_memcpy(to + n, &words, sizeof words);
    }
}

/// to(t, n) = from(t, n), rounded; `columns` a multiple of 16.
static void round_rows(uint16_t* to, int64_t ld, const float* from, int64_t stride, int64_t count,
                       int64_t columns) {
  for (int64_t t = 0; t < count; ++t)
    for (int64_t n = 0; n < columns; n += lanes) store(to + t * ld + n, load(from + t * stride + n));
}

}  // namespace quern::kernels::QUERN_LEVEL
