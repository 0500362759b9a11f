// Dropout's masks (quern::Dropout::factor) by vectors: Philox4x32-10 on several counters at once.
// Included only by src/kernels/level/*.cpp.
#pragma once

#include "../dropout_level.hpp"
#include "simd.hpp"

namespace quern::kernels::QUERN_LEVEL {

typedef uint64_t vq __attribute__((vector_size(QUERN_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(QUERN_LANES * 2)));

/// The product of the low halves of each 64-bit lane.
QUERN_INLINE vq multiply_low(vq a, uint32_t b) {
  const vq wide = vq{} + b;
#if defined(__AVX512F__)
  typedef int v16si __attribute__((vector_size(64)));
  typedef long long v8di __attribute__((vector_size(64)));
  return (vq)__builtin_ia32_pmuludq512_mask((v16si)a, (v16si)wide, v8di{}, 0xff);
#elif defined(__AVX2__)
  typedef int v8si __attribute__((vector_size(32)));
  return (vq)__builtin_ia32_pmuludq256((v8si)a, (v8si)wide);
#elif defined(__SSE2__)
  typedef int v4si __attribute__((vector_size(16)));
  return (vq)__builtin_ia32_pmuludq128((v4si)a, (v4si)wide);
#else
  return (a & 0xffffffffU) * wide;
#endif
}

constexpr int64_t mask_tile =
    512;  // columns for which a row's bits are made at a time; a multiple of 8 * lanes

/// The 16-bit numbers of columns [begin, begin + n) of one row; begin a multiple of 8, n <= mask_tile. Whole
/// vectors are written, so that `bits` holds mask_tile numbers.
QUERN_INLINE void dropout_bits(uint16_t* bits, const DropoutKey& d, int64_t row, int64_t begin, int64_t n) {
  constexpr int counters =
      lanes / 2;  // one counter, 8 columns, a 64-bit lane; only the low half of a lane counts
  const uint64_t global = d.first_row + static_cast<uint64_t>(row);
  vq first = {};
  for (int i = 0; i < counters; ++i) first[i] = static_cast<uint64_t>(begin / 8 + i);
  for (int64_t j = 0; j < n; j += 8 * counters) {
    vq c0 = first + static_cast<uint64_t>(j / 8), c1 = vq{} + (global & 0xffffffffU);
    vq c2 = vq{} + (global >> 32), c3 = vq{} + static_cast<uint64_t>(d.step);
    uint32_t k0 = d.key[0], k1 = d.key[1];
    for (int round = 0; round < 10; ++round) {
      const vq p0 = multiply_low(c0, 0xD2511F53U), p1 = multiply_low(c2, 0xCD9E8D57U);
      c0 = (p1 >> 32) ^ c1 ^ static_cast<uint64_t>(k0);
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ static_cast<uint64_t>(k1);
      c3 = p0;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    const vq low = (c0 & 0xffffffffU) | (c1 << 32), high = (c2 & 0xffffffffU) | (c3 << 32);
    uint64_t words[2 * counters];
    for (int i = 0; i < counters; ++i) {
      words[2 * i] = low[i];
      words[2 * i + 1] = high[i];
    }
    __builtin_memcpy(bits + j, words, sizeof words);
  }
}

/// The factors, 0 or `scale`, of `lanes` columns from their numbers.
QUERN_INLINE vf dropout_factor(const uint16_t* bits, const DropoutKey& d) {
  vh half;
  __builtin_memcpy(&half, bits, sizeof half);
  const vi keep = __builtin_convertvector(half, vi) >= static_cast<int32_t>(d.threshold);
  return (vf)(keep & (vi)broadcast(d.scale));
}

}  // namespace quern::kernels::QUERN_LEVEL
