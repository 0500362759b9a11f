#pragma once

#include <cstdint>
#include <string>

#include "quern/autograd/parameters.hpp"
#include "quern/base/arena.hpp"
#include "quern/base/profile.hpp"
#include "quern/train/config.hpp"

namespace quern {

/// The L2 norm of the whole accumulated gradient, summed in double. Gradients must be complete.
double gradient_norm(ParamStore& parameters);

/// The factor that brings a gradient of this norm down to `clip` (0: no clipping); 1 when it is below
/// already. Pascanu et al. 2013, 1211.5063.
double clip_factor(double norm, double clip);

/// The name of the first parameter whose value holds a NaN or an infinity, and of the first whose gradient
/// does; empty when there is none.
std::string first_nonfinite_value(ParamStore& parameters);
std::string first_nonfinite_gradient(ParamStore& parameters);

/// One update of all parameters by the step's `learning_rate`, gradients multiplied by `gradient_scale`: by
/// AdamW, or with optimizer muon the matrices between activations by Muon, at the rate that stands to
/// muon_learning_rate as `learning_rate` to the peak, and the rest by AdamW. Matrices and embeddings decay,
/// norms and biases never; a tied matrix is one parameter and decays once. `step` counts from 1. `pool` lends
/// scratch. Returns the L2 norm of what the update added over that of the parameters before it; NaN when all
/// of them were 0.
double update(ParamStore& parameters, const OptimConfig& optim, double learning_rate, double gradient_scale,
              std::int64_t step, Pool& pool);

/// What gradient_norm() and update() cost by part, and the bytes of scratch that they borrow.
struct OptimizerCost {
  Cost norm, adamw, muon;
  std::int64_t scratch = 0;
};
OptimizerCost optimizer_cost(const ParamStore& parameters, const OptimConfig& optim);

}  // namespace quern
