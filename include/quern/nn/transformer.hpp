#pragma once

#include <optional>
#include <vector>

#include "quern/nn/block.hpp"
#include "quern/nn/cache.hpp"
#include "quern/nn/embedding.hpp"

namespace quern {

/// Embedding, blocks and, with pre-norm, a final norm.
struct Stack {
  std::string path;
  Embedding embedding;
  std::vector<Block> blocks;
  std::optional<Norm> norm;
  std::int64_t rotary_width = 0;  // D with rotary positions, else 0
  double rope_theta;

  Stack(const Scope& scope, const ModelConfig& config);

  /// ids (B,T) -> (B,T,C). With a cache the tokens continue what it holds.
  Var operator()(Tape& tape, Tokens tokens, KVCache* cache, AttentionProbe* probe = nullptr) const;
};

/// A Transformer: a causal decoder with a language-model head.
class Transformer {
 public:
  /// `config.vocab_size` is the true size. `trains` false leaves gradients and moments away; `compute` is the
  /// type of products and activations. Values are not set yet: parameters().initialise(seed), or a
  /// checkpoint. With Backing::none it has shapes alone, for a tape that plans.
  Transformer(const ModelConfig& config, bool trains, Type compute = Type::f32,
              Backing backing = Backing::memory);
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  /// The cost of predicting `targets` (B,T), see cross_entropy_head(); when recording, tape.backward() may
  /// follow.
  Loss loss(Tape& tape, Tokens tokens, const std::int32_t* targets, double normaliser,
            float label_smoothing) const;

  /// The logits of every position, f32  // (B,T,V); of the last position alone  // (B,1,V)
  /// A probe gets the attention weights that it asks for.
  Var logits(Tape& tape, Tokens tokens, KVCache* cache = nullptr, AttentionProbe* probe = nullptr) const;
  Var last_logits(Tape& tape, Tokens tokens, KVCache* cache) const;

  const ModelConfig& config() const { return config_; }
  ParamStore& parameters() { return store_; }
  const ParamStore& parameters() const { return store_; }

 private:
  ModelConfig config_;
  ParamStore store_;
  Stack decoder_;
  Parameter* head_;  // (V,C): the token embedding itself when tied
};

}  // namespace quern
