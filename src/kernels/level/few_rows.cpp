// Products of a few rows: decoding, where reading the weights once is all the work.
#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

constexpr int at_once = 4;  // weight rows that are read side by side

/// The dot products of R rows of x with N rows of w, whose first is row n.
template <class T, int R, int N>
QUERN_INLINE void dots(const FewRows& a, int64_t n) {
  const T* w = static_cast<const T*>(a.w) + n * a.w_stride;
  vf total[R][N] = {};
  columns(0, a.depth, [&](int64_t k, int64_t count) QUERN_LAMBDA {
    vf row[N];
    for (int j = 0; j < N; ++j) row[j] = load_n(w + j * a.w_stride + k, count);
    for (int i = 0; i < R; ++i) {
      const vf x = load_n(a.x + i * a.x_stride + k, count);
      for (int j = 0; j < N; ++j) total[i][j] += x * row[j];
    }
  });
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) {
      const float dot = sum(total[i][j]) + (a.bias != nullptr ? a.bias[n + j] : 0);
      if (a.y.half) {
        sink_n(at<uint16_t>(a.y, i) + n + j, broadcast(dot), a.beta, 1);
      } else {
        sink_n(at(a.y, i) + n + j, broadcast(dot), a.beta, 1);
      }
    }
}

template <class T, int R>
void all_columns(const FewRows& a, int64_t begin, int64_t end) {
  int64_t n = begin;
  for (; n + at_once <= end; n += at_once) dots<T, R, at_once>(a, n);
  for (; n < end; ++n) dots<T, R, 1>(a, n);
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
