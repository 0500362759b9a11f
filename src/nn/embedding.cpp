#include "quern/nn/embedding.hpp"

namespace quern {

Embedding::Embedding(const Scope& scope, const ModelConfig& config)
    : tokens(scope.table("tokens.weight", config.vocab_size, config.d_model, embedding_init(config))),
      path_(scope.path()),
      context_length_(config.context_length),
      d_model_(config.d_model),
      dropout_{scope.site(), config.dropout} {
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
  return embedding(tape, batch, var(tokens), scale_, positions, first_position, dropout_);
}

}  // namespace quern
