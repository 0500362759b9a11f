#include "quern/nn/transformer.hpp"

#include <string>

namespace quern {
namespace {

constexpr const char* head_path = "head";

}  // namespace

Stack::Stack(const Scope& scope, const ModelConfig& config)
    : path(scope.path()),
      embedding(scope / "embedding", config),
      rotary_width(config.position == PositionKind::rope ? head_width(config) : 0),
      rope_theta(config.rope_theta) {
  for (std::int64_t i = 0; i < config.n_layers; ++i)
    blocks.emplace_back(scope / "blocks" / std::to_string(i), config);
  if (config.norm_placement == NormPlacement::pre) norm.emplace(scope / "norm", config);
}

Var Stack::operator()(Tape& tape, Tokens tokens, KVCache* cache, AttentionProbe* probe) const {
  const InModule in(tape, path);
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

Transformer::Transformer(const ModelConfig& config, bool trains, Type compute, Backing backing)
    : config_(config),
      store_(compute, backing),
      decoder_(Scope(store_, "decoder"), config_),
      head_(config.tie_embeddings
                ? decoder_.embedding.tokens
                : Scope(store_, head_path)
                      .table("weight", config.vocab_size, config.d_model, embedding_init(config))) {
  store_.allocate(trains);
}

Loss Transformer::loss(Tape& tape, Tokens tokens, const std::int32_t* targets, double normaliser,
                       float label_smoothing) const {
  const Var x = decoder_(tape, tokens, nullptr);  // (B,T,C)
  const InModule in(tape, head_path);
  return cross_entropy_head(tape, x, var(head_), targets, normaliser, label_smoothing);
}

Var Transformer::logits(Tape& tape, Tokens tokens, KVCache* cache, AttentionProbe* probe) const {
  const Var x = decoder_(tape, tokens, cache, probe);  // (B,T,C)
  const InModule in(tape, head_path);
  return linear(tape, x, var(head_), Var(), Type::f32);
}

Var Transformer::last_logits(Tape& tape, Tokens tokens, KVCache* cache) const {
  Tensor last = decoder_(tape, tokens, cache).value();  // (B,T,C)
  last.data = last.at((last.dim[1] - 1) * last.stride[1]);
  last.dim[1] = 1;
  const InModule in(tape, head_path);
  return linear(tape, tape.leaf(last), var(head_), Var(), Type::f32);
}

}  // namespace quern
