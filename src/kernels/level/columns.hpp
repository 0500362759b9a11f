// Loops over the columns of a row by vectors, the last one in part. Included only by src/kernels/level/*.cpp.
#pragma once

#include "../row_level.hpp"
#include "simd.hpp"

namespace quern::kernels::QUERN_LEVEL {

/// f(j, k) for j = begin, begin + lanes, …: k is `lanes`, at the end what is left.
template <class F>
QUERN_INLINE void columns(int64_t begin, int64_t end, F f) {
  int64_t j = begin;
  for (; j + lanes <= end; j += lanes) f(j, int64_t{lanes});
  if (j < end) f(j, end - j);
}

QUERN_INLINE vf load_n(const float* p, int64_t k, float fill = 0) {
  return k == lanes ? load(p) : load_part(p, k, fill);
}
QUERN_INLINE vf load_n(const uint16_t* p, int64_t k) { return k == lanes ? load(p) : load_part(p, k); }
template <class T>
QUERN_INLINE void store_n(T* p, vf v, int64_t k) {
  if (k == lanes) {
    store(p, v);
  } else {
    store_part(p, v, k);
  }
}

/// Stores v + beta * what is there; beta 0 does not read it.
template <class T>
QUERN_INLINE void sink_n(T* p, vf v, float beta, int64_t k) {
  store_n(p, beta == 0 ? v : v + beta * load_n(p, k), k);
}

/// The first k lanes of v; the rest 0.
QUERN_INLINE vf only(vf v, int64_t k) {
  if (k == lanes) return v;
  vf part = {};
  __builtin_memcpy(&part, &v, static_cast<unsigned long>(k) * 4);
  return part;
}

/// Row r; T is float, or uint16_t for rows of bfloat16.
template <class T = float>
QUERN_INLINE T* at(const Rows& rows, int64_t r) {
  return rows.data == nullptr ? nullptr : static_cast<T*>(rows.data) + r * rows.stride;
}

}  // namespace quern::kernels::QUERN_LEVEL
