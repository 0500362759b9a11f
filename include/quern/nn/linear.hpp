#pragma once

#include "quern/autograd/ops.hpp"
#include "quern/nn/scope.hpp"

namespace quern {

/// y = x Wᵀ + b; several layers of one input may stack their rows, `parts` each.
struct Linear {
  std::string path;
  Parameter* weight;  // (N,K)
  Parameter* bias;    // (N) or absent

  Linear(const Scope& scope, std::int64_t in, std::int64_t out, bool has_bias, Init init,
         std::vector<std::int64_t> parts = {}, Init bias_init = Init::constant(0))
      : path(scope.path()),
        weight(scope.matrix("weight", out, in, init, std::move(parts))),
        bias(has_bias ? scope.vector("bias", out, bias_init) : nullptr) {}

  /// With `rows` only those outputs.
  Var operator()(Tape& tape, Var x, RowRange rows = {}) const {
    const InModule in(tape, path);
    return linear(tape, x, var(weight), var(bias), std::nullopt, rows);
  }
};

}  // namespace quern
