#include "quern/base/parallel.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern {
namespace {

/// Element (i, j), whatever its type.
float get(const Mat& m, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * m.row_stride + j * m.col_stride;
  return m.type == Type::f32 ? static_cast<const float*>(m.data)[at]
                             : to_float(static_cast<const bf16*>(m.data)[at]);
}

void set(const Mat& m, std::int64_t i, std::int64_t j, float value) {
  const std::int64_t at = i * m.row_stride + j * m.col_stride;
  if (m.type == Type::f32) {
    static_cast<float*>(m.data)[at] = value;
  } else {
    static_cast<bf16*>(m.data)[at] = to_bf16(value);
  }
}

}  // namespace

void gemm_reference(Mat c, Mat a, Mat b, const GemmOptions& options) {
  QUERN_CHECK(a.rows == c.rows && b.cols == c.cols && a.cols == b.rows, a.rows, a.cols, b.rows, b.cols,
              c.rows, c.cols);
  parallel_for(c.rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < c.cols; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < a.cols; ++k) sum += get(a, i, k) * get(b, k, j);
        if (options.bias != nullptr) sum += options.bias[j];
        set(c, i, j, options.beta == 0 ? sum : sum + options.beta * get(c, i, j));
      }
  });
}

}  // namespace quern
