// Vectors for the files that are compiled once per instruction-set level. Included only by
// src/kernels/level/*.cpp. Everything here is static or a builtin: an inline function of a shared header
// compiled at a high level could be the copy that the linker keeps for every caller. GCC's vector extensions
// lower to whatever the level has.
#pragma once

#include <stdint.h>

#if !defined(QUERN_LEVEL)
#error "QUERN_LEVEL names the level that this file is compiled for"
#endif

#if defined(__AVX512F__)
#define QUERN_LANES 16
#elif defined(__AVX__)
#define QUERN_LANES 8
#else
#define QUERN_LANES 4
#endif

#define QUERN_LAMBDA __attribute__((always_inline))
#define QUERN_INLINE static inline __attribute__((always_inline))

namespace quern::kernels::QUERN_LEVEL {

constexpr int lanes = QUERN_LANES;
typedef float vf __attribute__((vector_size(QUERN_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(QUERN_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(QUERN_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(QUERN_LANES * 2)));

QUERN_INLINE vf load(const float* p) {
  vf v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
QUERN_INLINE void store(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
/// bfloat16 numbers, as their 16 bits, are the upper halves of floats: they are widened as they are loaded,
/// and rounded to nearest, ties to even, as they are stored; a NaN stays a (quiet) NaN.
#if QUERN_LANES == 16
QUERN_INLINE vu to_words(vh h) {
  typedef short shorts __attribute__((vector_size(32)));
  typedef int ints __attribute__((vector_size(64)));
  return (vu)__builtin_ia32_pmovzxwd512_mask((shorts)h, ints{}, 0xffff);
}
QUERN_INLINE vh to_halves(vu u) {
  typedef short shorts __attribute__((vector_size(32)));
  typedef int ints __attribute__((vector_size(64)));
  return (vh)__builtin_ia32_pmovdw512_mask((ints)u, shorts{}, 0xffff);
}
#elif defined(__AVX2__)  // GCC 12 would convert each half of the vector by itself
QUERN_INLINE vu to_words(vh h) {
  typedef short shorts __attribute__((vector_size(16)));
  return (vu)__builtin_ia32_pmovzxwd256((shorts)h);
}
QUERN_INLINE vh to_halves(vu u) {  // of numbers below 2^16
  typedef int ints __attribute__((vector_size(32)));
  typedef long long longs __attribute__((vector_size(32)));
  const longs packed = (longs)__builtin_ia32_packusdw256((ints)u, (ints)u);
  const longs joined = __builtin_shuffle(packed, longs{0, 2, 1, 3});
  vh low;
  __builtin_memcpy(&low, &joined, sizeof low);
  return low;
}
#else
QUERN_INLINE vu to_words(vh h) { return __builtin_convertvector(h, vu); }
QUERN_INLINE vh to_halves(vu u) { return __builtin_convertvector(u, vh); }
#endif

QUERN_INLINE vf widen(vh h) { return (vf)(to_words(h) << 16); }
QUERN_INLINE vh narrow(vf v) {
  const vu u = (vu)v, rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16, nan = (u >> 16) | 0x40U;
  return to_halves((vu)(v == v ? (vi)rounded : (vi)nan));
}
QUERN_INLINE vf load(const uint16_t* p) {
  vh h;
  __builtin_memcpy(&h, p, sizeof h);
  return widen(h);
}
QUERN_INLINE void store(uint16_t* p, vf v) {
  const vh h = narrow(v);
  __builtin_memcpy(p, &h, sizeof h);
}

/// x in every lane. x - 0 is x for every x, a negative zero too, so that the subtraction folds away; x + 0 is
/// not.
QUERN_INLINE vf broadcast(float x) { return x - vf{}; }

/// The first n < lanes elements; the rest is `fill`.
QUERN_INLINE vf load_part(const float* p, int64_t n, float fill = 0) {
  vf v = broadcast(fill);
  __builtin_memcpy(&v, p, static_cast<unsigned long>(n) * 4);
  return v;
}
QUERN_INLINE void store_part(float* p, vf v, int64_t n) {
  __builtin_memcpy(p, &v, static_cast<unsigned long>(n) * 4);
}

QUERN_INLINE vf load_part(const uint16_t* p, int64_t n) {
  vh h = {};
  __builtin_memcpy(&h, p, static_cast<unsigned long>(n) * 2);
  return widen(h);
}
QUERN_INLINE void store_part(uint16_t* p, vf v, int64_t n) {
  const vh h = narrow(v);
  __builtin_memcpy(p, &h, static_cast<unsigned long>(n) * 2);
}

QUERN_INLINE vf max(vf a, vf b) { return a > b ? a : b; }
QUERN_INLINE vf min(vf a, vf b) { return a < b ? a : b; }

/// The lanes added as a balanced tree: one order, whatever the compiler.
QUERN_INLINE float sum(vf v) {
  float t[lanes];
  __builtin_memcpy(t, &v, sizeof v);
  for (int n = lanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) t[i] += t[i + n];
  return t[0];
}
QUERN_INLINE float largest(vf v) {
  float t[lanes];
  __builtin_memcpy(t, &v, sizeof v);
  float m = t[0];
  for (int i = 1; i < lanes; ++i) m = t[i] > m ? t[i] : m;
  return m;
}

}  // namespace quern::kernels::QUERN_LEVEL
