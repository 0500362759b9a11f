#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {

void sum_of_squares(const Sum& a, int64_t begin, int64_t end) {
  constexpr int half = lanes / 2;  // doubles of a vector
  typedef float vs __attribute__((vector_size(QUERN_LANES * 2)));
  typedef double vd __attribute__((vector_size(QUERN_LANES * 4)));
  vd s[4] = {};
  int64_t j = begin;
  for (; j + 4 * half <= end; j += 4 * half) {
    for (int i = 0; i < 4; ++i) {
      vs x;
      __builtin_memcpy(&x, a.x + j + i * half, sizeof x);
      const vd wide = __builtin_convertvector(x, vd);
      s[i] += wide * wide;
    }
  }
  s[0] = (s[0] + s[1]) + (s[2] + s[3]);
  double total = 0;
  for (int i = 0; i < half; ++i) total += s[0][i];
  for (; j < end; ++j) total += static_cast<double>(a.x[j]) * static_cast<double>(a.x[j]);
  *a.result = total;
}

void first_nonfinite(const Find& a, int64_t begin, int64_t end) {
  *a.result = -1;
  for (int64_t j = begin; j < end; j += 64 * lanes) {
    const int64_t stop = j + 64 * lanes < end ? j + 64 * lanes : end;
    vf zeros = {};  // x * 0 is 0, or NaN where x is not finite
    columns(j, stop, [&](int64_t c, int64_t k) QUERN_LAMBDA { zeros += load_n(a.x + c, k) * 0.0F; });
    if (sum(zeros) == 0) continue;
    for (int64_t c = j; c < stop; ++c) {
      if (a.x[c] * 0.0F == 0) continue;
      *a.result = c;
      return;
    }
  }
}

namespace {

template <class T>
void column_sum_of(const ColumnSum& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r += 4) {
    const T* x[4];
    for (int i = 0; i < 4; ++i) x[i] = r + i < end ? at<T>(a.x, r + i) : nullptr;
    columns(0, a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      vf s = load_n(x[0] + j, k);
      if (x[3] != nullptr) {
        s = (s + load_n(x[1] + j, k)) + (load_n(x[2] + j, k) + load_n(x[3] + j, k));
      } else {
        for (int i = 1; i < 3; ++i)
          if (x[i] != nullptr) s += load_n(x[i] + j, k);
      }
      store_n(a.sums + j, load_n(a.sums + j, k) + s, k);
    });
  }
}

}  // namespace

void column_sum(const ColumnSum& a, int64_t begin, int64_t end) {
  if (a.x.half) return column_sum_of<uint16_t>(a, begin, end);
  column_sum_of<float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
