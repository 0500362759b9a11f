// The whole of a model: which parts it has is a matter of configuration.
#pragma once

#include <optional>
#include <vector>

#include "quern/nn/recurrent_translator.hpp"
#include "quern/nn/transformer.hpp"

namespace quern {

/// What a model reads.
struct Input {
  Tokens tokens = {};  // a decoder's, or those of an encoder alone
  Tokens source = {};  // those of an encoder that a decoder looks at
};

/// What it should say, and where the answers go.
struct Targets {
  const std::int32_t* classes = nullptr;  // (B,T), of a label (B); ignored_target counts nowhere
  const float* values = nullptr;          // (B), of a number
  std::int32_t* predictions = nullptr;    // as classes: the most likely ones; null: not wanted
  float* predicted_values = nullptr;      // as values; null: not wanted
};

/// A model: an encoder, a decoder or both (Vaswani et al. 2017; Devlin et al. 2018, 1810.04805; Dosovitskiy
/// et al. 2021, 2010.11929), or recurrent layers in their place, and a head that says tokens, tags, a label
/// or a number.
class Model {
 public:
  /// `config.vocab_size` is the true size. `trains` false leaves gradients and moments away; `compute` is the
  /// type of products and activations. Values are not set yet: parameters().initialise(seed), or a
  /// checkpoint. With Backing::none it has shapes alone, for a tape that plans.
  Model(const ModelConfig& config, bool trains, Type compute = Type::f32, Backing backing = Backing::memory);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// The cost of the targets, see cross_entropy_head() and squared_error(); when recording, tape.backward()
  /// may follow.
  Loss loss(Tape& tape, const Input& input, const Targets& targets, double normaliser,
            float label_smoothing) const;
  Loss loss(Tape& tape, const Input& input, const std::int32_t* targets, double normaliser,
            float label_smoothing) const {
    return loss(tape, input, Targets{targets}, normaliser, label_smoothing);
  }

  /// Whether a decoder looks at what an encoder read.
  bool has_memory() const { return (encoder_ && decoder_) || translator_; }
  /// What the encoder makes of the source, for a decoder's calls  // (B,S,C)
  Memory encode(Tape& tape, Tokens source, AttentionProbe* probe = nullptr) const;

  /// In place of it when a cache holds what cross-attention makes of it.
  Memory encoded_before(Tape& tape, std::int64_t batch, std::int64_t length) const;

  /// The logits of every position, f32  // (B,T,V); of the last position alone  // (B,V); those of a label
  /// (B,K), or a number (B,1). A decoder goes on from a cache, and reads a memory if it has cross-attention.
  /// A probe gets the attention weights that it asks for.
  Var logits(Tape& tape, Tokens tokens, KVCache* cache = nullptr, AttentionProbe* probe = nullptr,
             const Memory& memory = {}) const;
  Var last_logits(Tape& tape, Tokens tokens, KVCache* cache, const Memory& memory = {}) const;

  const ModelConfig& config() const { return config_; }
  HeadKind head() const { return config_.head == HeadKind::task ? HeadKind::tokens : config_.head; }
  ParamStore& parameters() { return store_; }
  const ParamStore& parameters() const { return store_; }

 private:
  Var hidden(Tape& tape, Tokens tokens, const Memory& memory, KVCache* cache, AttentionProbe* probe) const;
  Parameter* embedding() const;

  ModelConfig config_;
  ParamStore store_;
  std::optional<Stack> encoder_, decoder_;
  std::optional<RecurrentStack> recurrent_;
  std::optional<RecurrentTranslator> translator_;
  Parameter* head_;  // (V,C): the token embedding itself when tied; of labels and tags (K,C), a number (1,C)
  Parameter* head_bias_;  // (1), of a number
};

}  // namespace quern
