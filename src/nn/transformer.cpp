#include "quern/nn/transformer.hpp"

#include <string>

namespace quern {

Stack::Stack(const Scope& scope, const ModelConfig& config)
    : embedding(scope / "embedding", config),
      rotary_width(config.position == PositionKind::rope ? head_width(config) : 0),
      rope_theta(config.rope_theta) {
  for (std::int64_t i = 0; i < config.n_layers; ++i)
    blocks.emplace_back(scope / "blocks" / std::to_string(i), config);
  if (config.norm_placement == NormPlacement::pre) norm.emplace(scope / "norm", config);
}

Var Stack::operator()(Tape& tape, Tokens tokens, KVCache* cache, AttentionProbe* probe) const {
  const std::int64_t first = cache != nullptr ? cache->length() : 0;
  Flow x{embedding(tape, tokens, first), Var()};
  AttentionContext context;
  context.starts = tokens.starts;
  context.probe = probe;
  if (rotary_width != 0)
    context.rotations = rotary_positions(tape, first, tokens.length, rotary_width, rope_theta);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    context.layer = static_cast<std::int64_t>(i);
    x = blocks[i](tape, x, context, cache != nullptr ? cache->layer(i) : nullptr);
  }
  return norm ? (*norm)(tape, x.stream, x.branch).normed : x.stream;
}

Transformer::Transformer(const ModelConfig& config, bool trains, Type compute)
    : config_(config),
      store_(compute),
      decoder_(Scope(store_, "decoder"), config_),
      head_(config.tie_embeddings
                ? decoder_.embedding.tokens
                : Scope(store_, "head")
                      .table("weight", config.vocab_size, config.d_model, embedding_init(config))) {
  store_.allocate(trains);
}

Loss Transformer::loss(Tape& tape, Tokens tokens, const std::int32_t* targets, double normaliser,
                       float label_smoothing) const {
  return cross_entropy_head(tape, decoder_(tape, tokens, nullptr), var(head_), targets, normaliser,
                            label_smoothing);
}

Var Transformer::logits(Tape& tape, Tokens tokens, KVCache* cache, AttentionProbe* probe) const {
  return linear(tape, decoder_(tape, tokens, cache, probe), var(head_), Var(), Type::f32);
}

Var Transformer::last_logits(Tape& tape, Tokens tokens, KVCache* cache) const {
  Tensor last = decoder_(tape, tokens, cache).value();  // (B,T,C)
  last.data = last.at((last.dim[1] - 1) * last.stride[1]);
  last.dim[1] = 1;
  return linear(tape, tape.leaf(last), var(head_), Var(), Type::f32);
}

}  // namespace quern
