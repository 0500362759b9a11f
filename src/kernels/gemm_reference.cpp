#include "quern/base/parallel.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern {

void gemm_reference(Mat c, Mat a, Mat b, const GemmOptions& options) {
  QUERN_CHECK(a.rows == c.rows && b.cols == c.cols && a.cols == b.rows, a.rows, a.cols, b.rows, b.cols,
              c.rows, c.cols);
  const float *pa = a.f32(), *pb = b.f32();
  float* pc = c.f32();
  parallel_for(c.rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < c.cols; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < a.cols; ++k)
          sum += pa[i * a.row_stride + k * a.col_stride] * pb[k * b.row_stride + j * b.col_stride];
        if (options.bias != nullptr) sum += options.bias[j];
        float& out = pc[i * c.row_stride + j * c.col_stride];
        out = options.beta == 0 ? sum : sum + options.beta * out;
      }
  });
}

}  // namespace quern
