// The feed-forward's activations, element by element, on tensors of one type (f32 or bf16), computed in f32.
// Rows may lie apart (a row stride), columns not.
#pragma once

#include "quern/kernels/tensor.hpp"

namespace quern {

/// The feed-forward's activation. gelu is the tanh form of Hendrycks & Gimpel 2016 (1606.08415), gelu_erf the
/// exact one.
enum class Activation { gelu, gelu_erf, relu };

/// y = f(pre):
///   gelu      x / (1 + exp(-2u)),  u = sqrt(2/pi) * (x + 0.044715 x^3)   (= x/2 * (1 + tanh(u)), without
///   cancellation) gelu_erf  x * Phi(x),  Phi(x) = erfc(-x / sqrt(2)) / 2 relu      max(x, 0)
/// Finite for every finite x; NaN stays NaN. y may be pre's own buffer.  // (R,F)
void activation_forward(Tensor y, Tensor pre, Activation activation);

/// dpre = dy * f'(pre), and y = f(pre) again when y is not empty:
///   gelu      f' = s + x * s * (1 - s) * 2u',  s = 1 / (1 + exp(-2u)),  u' = sqrt(2/pi) * (1 + 3 * 0.044715
///   x^2) gelu_erf  f' = Phi(x) + x * exp(-x^2 / 2) / sqrt(2 pi) relu      f' = 1 for x > 0, else 0
/// dpre may be dy's own buffer, y may be pre's.  // (R,F)
void activation_backward(Tensor dpre, Tensor y, Tensor dy, Tensor pre, Activation activation);

}  // namespace quern
