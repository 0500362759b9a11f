#include "quern/kernels/elementwise.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

void fill(Tensor to, float value) {
  QUERN_CHECK(static_cast<bool>(to));
  const std::int64_t rows = to.rows(), cols = to.last();
  const Rows out = rows_of_any(to, rows, cols);
  for_stretches(rows, cols, to.contiguous(), [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    level().fill({from_row(out, r), value}, begin, end);
  });
}

void add_scaled(Sink to, Tensor x, float factor) {
  if (!to) return;
  const std::int64_t rows = x.rows(), cols = x.last();
  const Rows out = rows_of_any(to.to, rows, cols), in = rows_of_any(x, rows, cols);
  for_stretches(rows, cols, to.to.contiguous() && x.contiguous(),
                [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                  level().add_scaled({from_row(out, r), from_row(in, r), factor, to.beta}, begin, end);
                });
}

}  // namespace quern
