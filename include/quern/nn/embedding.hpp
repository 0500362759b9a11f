#pragma once

#include <memory>

#include "quern/autograd/ops.hpp"
#include "quern/nn/config.hpp"
#include "quern/nn/init.hpp"
#include "quern/nn/scope.hpp"

namespace quern {

/// Token embedding and positions. With sinusoidal positions the token's row is multiplied by sqrt(d_model),
/// as in the 2017 paper (section 3.4); with learned ones it is not, as in GPT-2.
class Embedding {
 public:
  Embedding(const Scope& scope, const ModelConfig& config);

  /// ids (B,T) at positions first_position, first_position + 1, …  // (B,T,C)
  Var operator()(Tape& tape, Tokens tokens, std::int64_t first_position) const;

  Parameter* tokens;  // (V,C)

 private:
  std::string path_;
  Parameter* learned_ = nullptr;         // (context_length,C)
  std::unique_ptr<float[]> sinusoidal_;  // (context_length,C), fixed
  std::int64_t context_length_, d_model_;
  float scale_ = 1;
  DropoutSite dropout_;
};

}  // namespace quern
