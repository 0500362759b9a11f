#pragma once

#include "quern/nn/config.hpp"
#include "quern/nn/init.hpp"
#include "quern/nn/linear.hpp"

namespace quern {

/// The hidden width: d_ff, or 4 d_model when that is 0.
inline std::int64_t hidden_width(const ModelConfig& config) {
  return config.d_ff != 0 ? config.d_ff : 4 * config.d_model;
}

/// activation(x W₁ᵀ + b₁) W₂ᵀ + b₂ (Vaswani et al. 2017, section 3.3).
struct FeedForward {
  Linear up;    // (F,C)
  Linear down;  // (C,F)
  Activation activation;

  FeedForward(const Scope& scope, const ModelConfig& config)
      : up(scope / "up", config.d_model, hidden_width(config), config.bias,
           projection_init(config, config.d_model, hidden_width(config))),
        down(scope / "down", hidden_width(config), config.d_model, config.bias,
             residual_init(config, hidden_width(config), config.d_model)),
        activation(config.activation) {}

  Var operator()(Tape& tape, Var x) const {
    return feed_forward(tape, x, var(up.weight), var(up.bias), var(down.weight), var(down.bias), activation);
  }
};

}  // namespace quern
