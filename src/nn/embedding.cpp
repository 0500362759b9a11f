#include "quern/nn/embedding.hpp"

#include "quern/nn/init.hpp"

namespace quern {

namespace {

/// The table of tokens, unless there are patches.
Parameter* table(const Scope& scope, const ModelConfig& config, Parameter* shared) {
  if (shared != nullptr || config.architecture == Architecture::vit) return shared;
  return scope.table("tokens.weight", config.vocab_size, config.d_model, embedding_init(config));
}

}  // namespace

Embedding::Embedding(const Scope& scope, const ModelConfig& config, Parameter* shared)
    : tokens(table(scope, config, shared)),
      path_(scope.path()),
      context_length_(config.context_length),
      d_model_(config.d_model),
      dropout_{scope.site(), config.dropout} {
  if (config.architecture == Architecture::vit)
    patches.emplace(scope / "patches", patch_width(config), d_model_, true,
                    projection_init(config, patch_width(config), d_model_));
  switch (config.position) {
    case PositionKind::rope:
    case PositionKind::alibi:
    case PositionKind::none: break;
    case PositionKind::learned:
      learned_ = scope.table("positions.weight", context_length_, d_model_, embedding_init(config));
      break;
    case PositionKind::sinusoidal:
      scale_ = std::sqrt(static_cast<float>(d_model_));
      if (scope.backing() == Backing::none) {
        sinusoidal_ = std::make_unique<float[]>(1);
        break;
      }
      sinusoidal_ = std::make_unique<float[]>(static_cast<std::size_t>(context_length_ * d_model_));
      sinusoidal_positions(Tensor(sinusoidal_.get(), {context_length_, d_model_}));
      break;
  }
}

Var Embedding::operator()(Tape& tape, Tokens batch, std::int64_t first_position) const {
  const InModule in(tape, path_);
  Var positions = var(learned_);
  if (sinusoidal_) positions = tape.leaf(Tensor(sinusoidal_.get(), {context_length_, d_model_}));
  Var rows = var(tokens);
  if (patches) {
    const std::int64_t shape[] = {batch.batch * batch.length, patches->weight->shape[1]};
    rows = linear(tape, tape.leaf(Tensor(const_cast<float*>(batch.patches), Type::f32, shape)),
                  var(patches->weight), var(patches->bias), Type::f32);  // (B*T,C)
  }
  return embedding(tape, batch, rows, scale_, positions, first_position, dropout_);
}

}  // namespace quern
