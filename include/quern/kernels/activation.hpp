// Activations, the feed-forward's and tanh, element by element, on tensors of one type (f32 or bf16),
// computed in f32. Rows may lie apart (a row stride), columns not.
#pragma once

#include "quern/kernels/tensor.hpp"

namespace quern {

/// The feed-forward's activation. gelu is the tanh form of Hendrycks & Gimpel 2016 (1606.08415), gelu_erf the
/// exact one; relu2 is So et al. 2021 (2109.08668); silu stands in both papers' footnotes and in Elfwing et
/// al. 2017 (1702.03118); swiglu and geglu are the gated units of Shazeer 2020 (2002.05202), geglu with the
/// tanh form.
enum class Activation { gelu, gelu_erf, relu, relu2, silu, swiglu, geglu };

/// Whether the activation takes a gate and a value: then pre is (R,2F), columns [0, F) the gate and [F, 2F)
/// the value that it lets through.
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

/// y = f(pre):
///   gelu      x / (1 + exp(-2u)),  u = sqrt(2/pi) * (x + 0.044715 x^3)   (= x/2 * (1 + tanh(u)), without
///             cancellation)
///   gelu_erf  x * Phi(x),  Phi(x) = erfc(-x / sqrt(2)) / 2
///   relu      max(x, 0)
///   relu2     max(x, 0)^2
///   silu      x / (1 + exp(-x))
///   swiglu    silu(gate) * value
///   geglu     gelu(gate) * value
/// Finite for every finite x whose result is; NaN stays NaN, and an infinity becomes it rather than the
/// limit, which would hide it. y may be pre's own buffer when there is no gate.
/// // (R,F)
void activation_forward(Tensor y, Tensor pre, Activation activation);

/// dpre = dy * f'(pre), and y = f(pre) again when y is not empty:
///   gelu      f' = s + x * s * (1 - s) * 2u',  s = 1 / (1 + exp(-2u)),  u' = sqrt(2/pi) * (1 + 3 * 0.044715
///             x^2)
///   gelu_erf  f' = Phi(x) + x * exp(-x^2 / 2) / sqrt(2 pi)
///   relu      f' = 1 for x > 0, else 0
///   relu2     f' = 2 max(x, 0)
///   silu      f' = s + x * s * (1 - s),  s = 1 / (1 + exp(-x))
///   gated     dgate = dy * value * f'(gate),  dvalue = dy * f(gate)   (f: silu or gelu)
/// dpre may be dy's own buffer when there is no gate, y may be dy's or, without a gate and when dpre is not
/// dy's, pre's.  // y, dy (R,F); dpre, pre (R,F) or (R,2F)
void activation_backward(Tensor dpre, Tensor y, Tensor dy, Tensor pre, Activation activation);

/// y = tanh(x), NaN for an infinite x; y may be x's own buffer.  // (R,C), of one type
void tanh_forward(Tensor y, Tensor x);

/// dx = dy * (1 - y^2) + beta * dx, from what forward wrote; dx may be dy's own buffer. An empty sink is
/// skipped.  // (R,C); dy and y of one type
void tanh_backward(Sink dx, Tensor dy, Tensor y);

}  // namespace quern
