#pragma once

#include "quern/nn/config.hpp"
#include "quern/nn/init.hpp"
#include "quern/nn/linear.hpp"

namespace quern {

/// activation(x W₁ᵀ + b₁) W₂ᵀ + b₂ (Vaswani et al. 2017, section 3.3; gated: Shazeer 2020, 2002.05202).
struct FeedForward {
  std::string path;
  Linear up;    // (F,C); gated: (2F,C), the rows of the gate, then those of the value
  Linear down;  // (C,F)
  Activation activation;

  FeedForward(const Scope& scope, const ModelConfig& config)
      : path(scope.path()),
        up(scope / "up", config.d_model, (is_gated(config.activation) ? 2 : 1) * hidden_width(config),
           config.bias, projection_init(config, config.d_model, hidden_width(config)),
           std::vector(is_gated(config.activation) ? 2 : 1, hidden_width(config))),
        down(scope / "down", hidden_width(config), config.d_model, config.bias,
             residual_init(config, hidden_width(config), config.d_model)),
        activation(config.activation) {}

  Var operator()(Tape& tape, Var x) const {
    const InModule in(tape, path);
    return feed_forward(tape, x, var(up.weight), var(up.bias), var(down.weight), var(down.bias), activation);
  }
};

}  // namespace quern
