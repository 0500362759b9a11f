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

#define QUERN_INLINE static inline __attribute__((always_inline))

namespace quern::kernels::QUERN_LEVEL {

constexpr int lanes = QUERN_LANES;
typedef float vf __attribute__((vector_size(QUERN_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(QUERN_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(QUERN_LANES * 4)));

QUERN_INLINE vf load(const float* p) {
  vf v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
QUERN_INLINE void store(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
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
