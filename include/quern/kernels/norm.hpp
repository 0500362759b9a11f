// Layer normalisation (Ba et al. 2016, 1607.06450) and root-mean-square normalisation (Zhang & Sennrich 2019,
// 1910.07467), fused with the residual addition and the dropout before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quern/kernels/dropout.hpp"
#include "quern/kernels/tensor.hpp"

namespace quern {

/// rmsnorm neither subtracts the mean nor adds a bias.
enum class NormKind { layernorm, rmsnorm };

/// For each of R rows:
///   x = stream + dropout(branch)                                     // (R,C)
///   mean = sum(x) / C,  rstd = 1 / sqrt(sum((x - mean)^2) / C + eps) // (R)
///   h = (x - mean) * rstd * gain + bias                              // (R,C)
/// with mean = 0 for rmsnorm (then `mean` and `bias` are null). `gain` (C); `bias` (C) or null. An empty
/// `branch` stands for zero: x is then the stream itself and is not written (it may be empty). x may be the
/// stream's own buffer, h may be branch's. Rows may lie apart (a row stride), columns not. branch and h may
/// be bf16, everything else is f32. Dropout's row is the tensor's row, its column the channel.
void residual_norm_forward(Tensor x, Tensor h, float* mean, float* rstd, Tensor stream, Tensor branch,
                           const float* gain, const float* bias, float eps, const Dropout& dropout,
                           NormKind kind = NormKind::layernorm);

/// The gradients of the above from dh and from dx, the gradient that reached x by other ways; one of them may
/// be empty. With xhat = (x - mean) * rstd, g = dh * gain and means over a row:
///   d = dx + rstd * (g - mean(g) - xhat * mean(g * xhat))            // (R,C); rmsnorm: without mean(g)
///   dstream = d,  dbranch = mask * d,  dgain = sum over rows of dh * xhat,  dbias = sum over rows of dh  //
///   (C)
/// each + beta * what was there. `x` may be empty when dh is. dstream may be dx's own buffer and dbranch may
/// be dh's (beta 0). `scratch` holds residual_norm_backward_scratch(R, C) floats; it is not used when neither
/// dgain nor dbias is wanted. dh and dbranch may be bf16.
void residual_norm_backward(Sink dstream, Sink dbranch, Sink dgain, Sink dbias, Tensor dx, Tensor dh,
                            Tensor x, const float* mean, const float* rstd, const float* gain,
                            const Dropout& dropout, std::span<float> scratch,
                            NormKind kind = NormKind::layernorm);
std::size_t residual_norm_backward_scratch(std::int64_t rows, std::int64_t cols);

}  // namespace quern
