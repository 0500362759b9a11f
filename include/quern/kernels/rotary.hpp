// What happens to the heads of a query or key projection before attention: root-mean-square normalisation of
// each head (QK-norm, Henry et al. 2020, 2010.04245, as Qwen 3 and Gemma 3 have it) and rotary positions
// (RoPE, Su et al. 2021, 2104.09864, section 3.4.2), both optional, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quern/kernels/tensor.hpp"

namespace quern {

/// The rotations of positions first_position + t, D even:
///   table[t, i] = cos(a),  table[t, D/2 + i] = sin(a),  a = (first_position + t) * theta^(-2i/D),  0 <= i <
///   D/2
/// (T,D), f32; the angles are computed in double, so that far positions keep their digits.
void rotary_table(Tensor table, std::int64_t first_position, double theta);

/// For each head x of D numbers in a row (b,t):
///   n = x * rstd * gain,  rstd = 1 / sqrt(sum(x^2) / D + eps)        without a gain: n = x
///   y[i]       = n[i] cos(t,i) - n[D/2 + i] sin(t,i)                 without a table: y = n
///   y[D/2 + i] = n[D/2 + i] cos(t,i) + n[i] sin(t,i)                 0 <= i < D/2
/// The two numbers of a pair lie half a head apart, as in LLaMA's weights in transformers (Su et al. pair
/// neighbours; one is a permutation of the other's weights).
///   y, x (B,T,H*D) of one type, f32 or bf16, rows may lie apart; table (T,D) or empty; gain (D) or null;
///   rstd (B,T,H), null without a gain. y may be x's own buffer.
void rotary_forward(Tensor y, Tensor x, Tensor table, const float* gain, float* rstd, float eps,
                    std::int64_t heads);

/// With dn, dy turned back by the same angles, xhat = x * rstd, g = dn * gain and the mean over a head:
///   dx = rstd * (g - xhat * mean(g * xhat))                          without a gain: dx = dn
///   dgain = sum over rows and heads of dn * xhat
/// each + beta * what was there. `x` may be empty without a gain. `scratch` holds rotary_backward_scratch(B *
/// T, H * D, D) floats; it is not used when dgain is not wanted. D at most 256 with a gain. dx may
/// be dy's own buffer (beta 0).
void rotary_backward(Sink dx, Sink dgain, Tensor dy, Tensor x, Tensor table, const float* gain,
                     const float* rstd, std::int64_t heads, std::span<float> scratch);
std::size_t rotary_backward_scratch(std::int64_t rows, std::int64_t cols, std::int64_t width);

}  // namespace quern
