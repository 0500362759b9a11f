// Products of a few rows: decoding, where reading the weights once is all the work.
#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

constexpr int at_once = 4;  // vectors of a weight row: as many sums, so that none waits for the one before

/// The dot products of R rows of x with row n of w. Weights are read in the order in which they lie.
template <class T, int R>
QUERN_INLINE void dots(const FewRows& a, int64_t n) {
  const T* w = static_cast<const T*>(a.w) + n * a.w_stride;
  vf total[R][at_once] = {};
  int64_t k = 0;
  for (; k + at_once * lanes <= a.depth; k += at_once * lanes) {
#pragma GCC unroll 4
    for (int j = 0; j < at_once; ++j) {
      const vf weight = load(w + k + j * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) total[i][j] += load(a.x + i * a.x_stride + k + j * lanes) * weight;
    }
  }
  columns(k, a.depth, [&](int64_t at, int64_t count) QUERN_LAMBDA {
    const vf weight = load_n(w + at, count);
    for (int i = 0; i < R; ++i) total[i][0] += load_n(a.x + i * a.x_stride + at, count) * weight;
  });
  for (int i = 0; i < R; ++i) {
    const vf all = (total[i][0] + total[i][1]) + (total[i][2] + total[i][3]);
    const vf dot = broadcast(sum(all) + (a.bias != nullptr ? a.bias[n] : 0));
    if (a.y.half) {
      sink_n(at<uint16_t>(a.y, i) + n, dot, a.beta, 1);
    } else {
      sink_n(at(a.y, i) + n, dot, a.beta, 1);
    }
  }
}

template <class T, int R>
void all_columns(const FewRows& a, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) dots<T, R>(a, n);
}

template <class T>
void few_rows_of(const FewRows& a, int64_t begin, int64_t end) {
  switch (a.rows) {
    case 1: return all_columns<T, 1>(a, begin, end);
    case 2: return all_columns<T, 2>(a, begin, end);
    case 3: return all_columns<T, 3>(a, begin, end);
    default: return all_columns<T, few_rows_most>(a, begin, end);
  }
}

}  // namespace

void few_rows(const FewRows& a, int64_t begin, int64_t end) {
  if (a.half) return few_rows_of<uint16_t>(a, begin, end);
  few_rows_of<float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
