#include "quern/kernels/dropout.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

void drop(Sink to, Tensor x, const Dropout& dropout) {
  if (!to) return;
  QUERN_CHECK(static_cast<bool>(dropout));
  const std::int64_t rows = x.rows(), cols = x.last();
  const Drop a = {rows_of_any(to.to, rows, cols), rows_of_any(x, rows, cols), to.beta, cols,
                  dropout_key(dropout)};
  parallel_for(rows, row_grain(cols),
               [&](std::int64_t begin, std::int64_t end) { level().drop(a, begin, end); });
}

}  // namespace quern
