// AdamW (Loshchilov & Hutter 2017, 1711.05101): Adam with decoupled weight decay.
#pragma once

#include <cstdint>

#include "quern/base/bf16.hpp"
#include "quern/kernels/reduce.hpp"

namespace quern {

struct AdamW {
  float learning_rate = 0;
  float beta1 = 0.9F, beta2 = 0.999F;
  float eps = 1e-8F;
  float weight_decay = 0;
  float gradient_scale = 1;  // the gradient is multiplied by this first: clipping
  std::int64_t step = 1;     // counts from 1
};

/// One update of n weights and their two moments, with g' = gradient_scale * g:
///   m = beta1 * m + (1 - beta1) * g',   v = beta2 * v + (1 - beta2) * g'^2
///   w = w - learning_rate * weight_decay * w
///         - learning_rate / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
/// which is PyTorch's placement of the corrections and of eps. `shadow` (n), unless it is null, becomes w
/// rounded to bf16. Returns how far the weights moved.
Squares adamw_update(float* w, const float* g, float* m, float* v, std::int64_t n, const AdamW& adamw,
                     bf16* shadow = nullptr);

}  // namespace quern
