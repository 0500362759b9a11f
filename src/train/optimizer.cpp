#include "quern/train/optimizer.hpp"

#include <cmath>

#include "quern/kernels/adamw.hpp"
#include "quern/kernels/reduce.hpp"

namespace quern {

double gradient_norm(ParamStore& parameters) {
  return std::sqrt(sum_of_squares(parameters.gradients(), parameters.slab_size()));
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

std::string first_nonfinite_parameter(ParamStore& parameters) {
  for (const Parameter& p : parameters.all())
    if (first_nonfinite(p.slot.grad.f32(), p.size()) >= 0) return p.name + " (gradient)";
  for (const Parameter& p : parameters.all())
    if (first_nonfinite(p.slot.value.f32(), p.size()) >= 0) return p.name + " (value)";
  return {};
}

void update(ParamStore& parameters, const OptimConfig& optim, double learning_rate, double gradient_scale,
            std::int64_t step) {
  AdamW adamw;
  adamw.learning_rate = static_cast<float>(learning_rate);
  adamw.beta1 = static_cast<float>(optim.betas[0]);
  adamw.beta2 = static_cast<float>(optim.betas[1]);
  adamw.eps = static_cast<float>(optim.eps);
  adamw.gradient_scale = static_cast<float>(gradient_scale);
  adamw.step = step;
  const auto range = [&](std::int64_t begin, std::int64_t end, double decay) {
    adamw.weight_decay = static_cast<float>(decay);
    adamw_update(parameters.values() + begin, parameters.gradients() + begin,
                 parameters.first_moments() + begin, parameters.second_moments() + begin, end - begin, adamw,
                 parameters.shadow() != nullptr ? parameters.shadow() + begin : nullptr);
  };
  range(0, parameters.decaying_size(), optim.weight_decay);
  range(parameters.decaying_size(), parameters.slab_size(), 0);
}

}  // namespace quern
