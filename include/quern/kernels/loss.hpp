// Cross-entropy with label smoothing (Szegedy et al. 2015, 1512.00567, section 7) on rows of logits, and the
// squared error of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quern/kernels/tensor.hpp"

namespace quern {

/// A row with this target counts nowhere: not in the loss, not in the smoothing, not in the count.
constexpr std::int32_t ignored_target = -1;

/// Sums over the rows that count, in nats.
struct RowLoss {
  double nll = 0;       // sum of -log softmax(logits)[target]
  double smoothed = 0;  // sum of -sum_v q_v log softmax(logits)_v,  q = (1 - e) * onehot(target) + e / V
  std::int64_t targets = 0;
};

/// The loss of R rows of `logits` (R,V); `targets` (R) in [0, V) or ignored_target; e = `label_smoothing` in
/// [0, 1). With gradient_scale other than 0 the logits are replaced by
///   gradient_scale * (softmax(logits) - q),  rows of zeros where the target is ignored;
/// with 0 they are left alone. The gradient is f32, or bf16 in the first half of each row (see gradient_of).
/// A logit of -inf has probability 0 (its smoothed loss is inf when e > 0); a row whose logits hold +inf or
/// NaN, or nothing but -inf, has loss NaN. `scratch` holds cross_entropy_rows_scratch(R) floats.
RowLoss cross_entropy_rows(Tensor logits, const std::int32_t* targets, float label_smoothing,
                           float gradient_scale, std::span<float> scratch, Type gradient_type = Type::f32);
std::size_t cross_entropy_rows_scratch(std::int64_t rows);

/// The gradient that cross_entropy_rows left in `logits`  // (R,V)
Mat gradient_of(Tensor logits, Type gradient_type);

/// The class of the largest logit of each row, the first of equals; that of a row of NaN is 0.  // (R)
/// logits (R,V)
void most_likely(Tensor logits, std::int32_t* classes);

/// sum over r of (y[r] - values[r])^2, in double; `dy`, unless it is empty, becomes
///   gradient_scale * 2 (y[r] - values[r])
/// y and dy (R,1), values (R), f32.
double squared_error_rows(Tensor dy, Tensor y, const float* values, float gradient_scale);

}  // namespace quern
