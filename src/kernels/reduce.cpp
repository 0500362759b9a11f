#include "quern/kernels/reduce.hpp"

#include <array>
#include <cmath>

#include "rows.hpp"

namespace quern {

using namespace kernels;

double sum_of_squares(const float* x, std::int64_t n) {
  double parts[max_chunks];
  const std::int64_t grain = long_grain(n);
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    level().sum_of_squares({x, &parts[begin / grain]}, begin, end);
  });
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += grain) total += parts[begin / grain];
  return total;
}

std::int64_t first_nonfinite(const float* x, std::int64_t n) {
  std::int64_t found[max_chunks];
  const std::int64_t grain = long_grain(n);
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    level().first_nonfinite({x, &found[begin / grain]}, begin, end);
  });
  for (std::int64_t begin = 0; begin < n; begin += grain)
    if (found[begin / grain] >= 0) return found[begin / grain];
  return -1;
}

bool all_finite(const Tensor& x) {
  const Mat m = x.rank == 0 ? Tensor(x.data, x.type, std::array<std::int64_t, 1>{1}).mat() : x.mat();
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) {
      const std::int64_t i = r * m.row_stride + c * m.col_stride;
      const float value = m.type == Type::f32 ? m.f32()[i] : to_float(static_cast<const bf16*>(m.data)[i]);
      if (!std::isfinite(value)) return false;
    }
  return true;
}

std::size_t column_sum_scratch(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(partial_chunks(rows, cols) * cols);
}

void column_sum(Sink out, Tensor x, std::span<float> scratch) {
  if (!out) return;
  const std::int64_t rows = x.rows(), cols = x.last();
  QUERN_CHECK(scratch.size() >= column_sum_scratch(rows, cols), scratch.size(), rows, cols);
  const ColumnSum a = {rows_of_any(x, rows, cols), nullptr, cols};
  const std::int64_t grain = partial_grain(rows, cols);
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    ColumnSum chunk = a;
    chunk.sums = scratch.data() + begin / grain * cols;
    std::fill_n(chunk.sums, cols, 0.0F);
    level().column_sum(chunk, begin, end);
  });
  add_chunks(out.to.f32(), out.beta, scratch.data(), partial_chunks(rows, cols), cols, cols);
}

}  // namespace quern
