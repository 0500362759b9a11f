#pragma once

#include <memory>
#include <optional>

#include "quern/autograd/ops.hpp"
#include "quern/nn/config.hpp"
#include "quern/nn/linear.hpp"
#include "quern/nn/scope.hpp"

namespace quern {

/// Token embedding and positions. With sinusoidal positions the token's row is multiplied by sqrt(d_model),
/// as in the 2017 paper (section 3.4); with learned ones it is not, as in GPT-2. Of images each patch is
/// projected in place of a row of a table (Dosovitskiy et al. 2021, 2010.11929, section 3.1); the class token
/// is an empty patch before the others, told from them by its position.
class Embedding {
 public:
  /// `shared` (V,C), when given, is the table of another embedding.
  Embedding(const Scope& scope, const ModelConfig& config, Parameter* shared = nullptr);

  /// ids (B,T) at positions first_position, first_position + 1, …  // (B,T,C)
  Var operator()(Tape& tape, Tokens tokens, std::int64_t first_position) const;

  Parameter* tokens;              // (V,C); or none, with
  std::optional<Linear> patches;  // (C,P)

 private:
  std::string path_;
  Parameter* learned_ = nullptr;         // (context_length,C)
  std::unique_ptr<float[]> sinusoidal_;  // (context_length,C), fixed
  std::int64_t context_length_, d_model_;
  float scale_ = 1;
  DropoutSite dropout_;
};

}  // namespace quern
