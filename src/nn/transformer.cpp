#include "quern/nn/transformer.hpp"

#include <string>

namespace quern {

Stack::Stack(const Scope& scope, const ModelConfig& config, AttentionRole role, bool reads_memory,
             Parameter* tokens)
    : path(scope.path()),
      embedding(scope / "embedding", config, tokens),
      rotary_width(config.position == PositionKind::rope ? head_width(config) : 0),
      rope_theta(config.rope_theta) {
  for (std::int64_t i = 0; i < config.n_layers; ++i)
    blocks.emplace_back(scope / "blocks" / std::to_string(i), config, role, reads_memory);
  if (config.norm_placement == NormPlacement::pre) norm.emplace(scope / "norm", config);
}

Var Stack::operator()(Tape& tape, Tokens tokens, const Memory& memory, KVCache* cache,
                      AttentionProbe* probe) const {
  const InModule in(tape, path);
  const std::int64_t first = cache != nullptr ? cache->length() : 0;
  Flow x{embedding(tape, tokens, first), Var()};
  AttentionContext context;
  context.starts = tokens.starts;
  context.lengths = tokens.lengths;
  context.probe = probe;
  if (rotary_width != 0)
    context.rotations = rotary_positions(tape, first, tokens.length, rotary_width, rope_theta);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    context.layer = static_cast<std::int64_t>(i);
    const BlockCache held = cache != nullptr ? BlockCache{cache->layer(i), cache->memory(i)} : BlockCache{};
    x = blocks[i](tape, x, context, memory, held);
  }
  return norm ? (*norm)(tape, x.stream, x.branch).normed : x.stream;
}

}  // namespace quern
