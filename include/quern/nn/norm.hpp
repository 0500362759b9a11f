#pragma once

#include "quern/autograd/ops.hpp"
#include "quern/nn/config.hpp"
#include "quern/nn/scope.hpp"

namespace quern {

/// LayerNorm (Ba et al. 2016) or RMSNorm (Zhang & Sennrich 2019), together with the residual addition and the
/// dropout that precede it.
struct Norm {
  std::string path;
  NormKind kind;
  Parameter* gain;  // (C), "weight"
  Parameter* bias;  // (C) or absent
  float eps;
  DropoutSite dropout;  // of the branch that is added
  Type type;            // of the normalised rows: with post-norm they are the stream, which is f32

  Norm(const Scope& scope, const ModelConfig& config)
      : path(scope.path()),
        kind(config.norm),
        gain(scope.vector("weight", config.d_model, 1)),
        bias(config.bias && kind == NormKind::layernorm ? scope.vector("bias", config.d_model, 0) : nullptr),
        eps(static_cast<float>(config.norm_eps)),
        dropout{scope.site(), config.dropout},
        type(config.norm_placement == NormPlacement::pre ? scope.compute() : Type::f32) {}

  /// {stream + dropout(branch), its normalised rows}  // (B,T,C)
  ResidualNorm operator()(Tape& tape, Var stream, Var branch) const {
    const InModule in(tape, path);
    return residual_norm(tape, stream, branch, kind, var(gain), var(bias), eps, dropout, type);
  }
};

}  // namespace quern
