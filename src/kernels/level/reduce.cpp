#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {

void sum_of_squares(const Sum& a, int64_t begin, int64_t end) {
  typedef double vd __attribute__((vector_size(QUERN_LANES * 8)));
  vd s[2] = {};
  int i = 0;
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vd x = __builtin_convertvector(load_n(a.x + j, k), vd);
    s[i] += x * x;
    i ^= 1;
  });
  s[0] += s[1];
  double total = 0;
  for (int lane = 0; lane < lanes; ++lane) total += s[0][lane];
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

void column_sum(const ColumnSum& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r += 4) {
    const float* x[4];
    for (int i = 0; i < 4; ++i) x[i] = r + i < end ? at(a.x, r + i) : nullptr;
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

}  // namespace quern::kernels::QUERN_LEVEL
