#pragma once

#include <optional>
#include <vector>

#include "quern/nn/block.hpp"
#include "quern/nn/cache.hpp"
#include "quern/nn/embedding.hpp"

namespace quern {

/// One half of a Transformer, encoder or decoder: embedding, blocks and, with pre-norm, a final norm.
struct Stack {
  std::string path;
  Embedding embedding;
  std::vector<Block> blocks;
  std::optional<Norm> norm;
  std::int64_t rotary_width = 0;  // D with rotary positions, else 0
  double rope_theta;

  /// A decoder that `reads_memory` has cross-attention. `tokens` (V,C), when given, is the embedding's table,
  /// shared with who made it.
  Stack(const Scope& scope, const ModelConfig& config, AttentionRole role, bool reads_memory = false,
        Parameter* tokens = nullptr);

  /// ids (B,T) -> (B,T,C). With a cache the tokens continue what it holds.
  Var operator()(Tape& tape, Tokens tokens, const Memory& memory = {}, KVCache* cache = nullptr,
                 AttentionProbe* probe = nullptr) const;
};

}  // namespace quern
