// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"): momentum, made
// orthogonal before it is applied. For one matrix w (M,N) with gradient g' = gradient_scale * g:
//
//   m = momentum * m + (1 - momentum) * g'
//   u = momentum * m + (1 - momentum) * g'             (Nesterov's look ahead)
//   o = orthogonalised(u)
//   w = (1 - learning_rate * weight_decay) * w - learning_rate * sqrt(max(1, M / N)) * o
//
// orthogonalised(u) takes U S Vᵀ to about U Vᵀ by five Newton-Schulz steps, which need products alone:
//
//   X0 = u / (|u|_F + 1e-7),   A = X Xᵀ,   X' = 3.4445 X + (-4.7750 A + 2.0315 A A) X
//
// Each takes a singular value s to 3.4445 s - 4.7750 s^3 + 2.0315 s^5: what began above about 0.01 ends
// between 0.68 and 1.13, which is near enough and reached sooner than 1 exactly. With M > N the same is done
// with XᵀX on the other side.
#pragma once

#include <cstddef>
#include <span>

#include "quern/kernels/reduce.hpp"
#include "quern/kernels/tensor.hpp"

namespace quern {

struct Muon {
  float learning_rate = 0;
  float momentum = 0.95F;
  float weight_decay = 0;
  float gradient_scale = 1;  // the gradient is multiplied by this first: clipping
};

/// One update of a matrix w (M,N) and its momentum m (M,N) by the gradient g (M,N), all contiguous f32, as
/// above. `shadow` (M,N), unless it is empty, becomes w rounded to bf16. `scratch` holds muon_scratch(M, N)
/// floats. Returns how far w moved.
Squares muon_update(Tensor w, Tensor g, Tensor m, Tensor shadow, const Muon& muon, std::span<float> scratch);
std::size_t muon_scratch(std::int64_t M, std::int64_t N);

}  // namespace quern
