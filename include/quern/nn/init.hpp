#pragma once

#include <cmath>

#include "quern/autograd/parameters.hpp"
#include "quern/nn/config.hpp"

namespace quern {

/// A linear layer from `in` to `out`: GPT-2's normal 0.02 (Radford et al. 2019), or Glorot & Bengio 2010's
/// uniform with bound sqrt(6 / (in + out)).
inline Init projection_init(const ModelConfig& config, std::int64_t in, std::int64_t out) {
  if (config.init == InitKind::gpt2) return Init::normal(0.02);
  return Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}

/// A layer whose output is added to the stream: GPT-2 divides its deviation by sqrt(2 n_layers), the number
/// of such additions.
inline Init residual_init(const ModelConfig& config, std::int64_t in, std::int64_t out) {
  if (config.init == InitKind::gpt2)
    return Init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(config.n_layers)));
  return projection_init(config, in, out);
}

/// All of a recurrent layer of this width, as in PyTorch: uniform in +-1 / sqrt(width).
inline Init recurrent_init(std::int64_t width) {
  return Init::uniform(1 / std::sqrt(static_cast<double>(width)));
}

/// An embedding: GPT-2's 0.02, or d_model^-1/2, which the 2017 paper's factor sqrt(d_model) brings to unit
/// variance.
inline Init embedding_init(const ModelConfig& config) {
  return Init::normal(config.init == InitKind::gpt2 ? 0.02
                                                    : 1 / std::sqrt(static_cast<double>(config.d_model)));
}

}  // namespace quern
