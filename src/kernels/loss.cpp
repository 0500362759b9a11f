#include "quern/kernels/loss.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

std::size_t cross_entropy_rows_scratch(std::int64_t rows) { return static_cast<std::size_t>(2 * rows); }

RowLoss cross_entropy_rows(Tensor logits, const std::int32_t* targets, float label_smoothing,
                           float gradient_scale, std::span<float> scratch, Type gradient_type) {
  const std::int64_t rows = logits.rows(), cols = logits.last();
  QUERN_CHECK(logits && scratch.size() >= cross_entropy_rows_scratch(rows), scratch.size(), rows);
  QUERN_CHECK(label_smoothing >= 0 && label_smoothing < 1, label_smoothing);
  for (std::int64_t r = 0; r < rows; ++r)
    QUERN_CHECK(targets[r] == ignored_target || (targets[r] >= 0 && targets[r] < cols), r, targets[r], cols);
  float *nll = scratch.data(), *smoothed = nll + rows;
  const Loss a = {rows_of(logits, rows, cols), targets, label_smoothing, gradient_scale,
                  gradient_type == Type::bf16, nll,     smoothed,        cols};
  parallel_for(rows, row_grain(cols),
               [&](std::int64_t begin, std::int64_t end) { level().loss(a, begin, end); });
  RowLoss total;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (targets[r] == ignored_target) continue;
    total.nll += static_cast<double>(nll[r]);
    total.smoothed += static_cast<double>(smoothed[r]);
    ++total.targets;
  }
  return total;
}

Mat gradient_of(Tensor logits, Type gradient_type) {
  Mat gradient = logits.mat();
  if (gradient_type == Type::bf16) gradient.type = Type::bf16, gradient.row_stride *= 2;
  return gradient;
}

void most_likely(Tensor logits, std::int32_t* classes) {
  const std::int64_t rows = logits.rows(), cols = logits.last();
  const Mat x = logits.mat();
  parallel_for(rows, row_grain(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = x.f32() + r * x.row_stride;
      std::int64_t best = 0;
      for (std::int64_t v = 1; v < cols; ++v)
        if (row[v] > row[best]) best = v;
      classes[r] = static_cast<std::int32_t>(best);
    }
  });
}

double squared_error_rows(Tensor dy, Tensor y, const float* values, float gradient_scale) {
  double total = 0;
  for (std::int64_t r = 0; r < y.size(); ++r) {
    const float error = y.f32()[r] - values[r];
    total += static_cast<double>(error) * static_cast<double>(error);
    if (dy) dy.f32()[r] = gradient_scale * 2 * error;
  }
  return total;
}

}  // namespace quern
