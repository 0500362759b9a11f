#include "quern/kernels/elementwise.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

namespace {

float* floats_of(const Rows& rows, std::int64_t r) { return static_cast<float*>(from_row(rows, r).data); }

void fill_halves(const Tensor& to, float value) {
  const Mat m = to.mat();
  for (std::int64_t r = 0; r < m.rows; ++r)
    std::fill_n(static_cast<bf16*>(m.data) + r * m.row_stride, m.cols, to_bf16(value));
}

}  // namespace

void fill(Tensor to, float value) {
  QUERN_CHECK(static_cast<bool>(to));
  const std::int64_t rows = to.rows(), cols = to.last();
  if (to.type == Type::bf16) return fill_halves(to, value);
  const Rows out = rows_of(to, rows, cols);
  for_stretches(rows, cols, to.contiguous(), [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    level().fill({floats_of(out, r), value}, begin, end);
  });
}

void add_scaled(Sink to, Tensor x, float factor) {
  if (!to) return;
  const std::int64_t rows = x.rows(), cols = x.last();
  const Rows out = rows_of(to.to, rows, cols), in = rows_of(x, rows, cols);
  for_stretches(rows, cols, to.to.contiguous() && x.contiguous(),
                [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                  level().add_scaled({floats_of(out, r), floats_of(in, r), factor, to.beta}, begin, end);
                });
}

void convert(Sink to, Tensor x) {
  if (!to) return;
  const std::int64_t rows = x.rows(), cols = x.last();
  const Rows out = rows_of_any(to.to, rows, cols), in = rows_of_any(x, rows, cols);
  for_stretches(rows, cols, to.to.contiguous() && x.contiguous(),
                [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                  level().convert({from_row(out, r), from_row(in, r), to.beta}, begin, end);
                });
}

}  // namespace quern
