#pragma once

#include <string>
#include <vector>

#include "quern/nn/cache.hpp"
#include "quern/nn/linear.hpp"

namespace quern {

/// A GRU or an LSTM: one product for the gates of all steps from their input, then the steps. As in PyTorch
/// both weights and both biases start uniform in ±1 / sqrt(C).
struct RecurrentLayer {
  std::string path;
  Cell cell;
  Linear input;            // (G*C,K)
  Parameter* hidden;       // (G*C,C)
  Parameter* hidden_bias;  // (G*C)

  RecurrentLayer(const Scope& scope, Cell kind, std::int64_t in, std::int64_t width);

  /// x (B,T,K) -> (B,T,C); `lengths` (B) or null and `reverse` as in RecurrentOptions. With a cache x
  /// continues the tokens whose state it holds.
  Var operator()(Tape& tape, Var x, const std::int32_t* lengths, bool reverse, LayerCache* cache) const;
};

/// Token embedding and recurrent layers on top of one another, all of one width, without positions: the order
/// of tokens is that of the steps. Dropout acts on what a layer reads from below, never on what it reads from
/// the step before (Zaremba et al. 2014, 1409.2329).
struct RecurrentStack {
  std::string path, embedding_path;
  Parameter* tokens;  // (V,C)
  std::vector<RecurrentLayer> layers;
  std::vector<DropoutSite> dropout;  // of each layer's input

  RecurrentStack(const Scope& scope, const ModelConfig& config);

  /// ids (B,T) -> (B,T,C). With a cache the tokens continue what it holds. Documents are not
  /// packed: a state does not begin anew inside a row. A probe finds no weights.
  Var operator()(Tape& tape, Tokens ids, KVCache* cache, AttentionProbe* probe = nullptr) const;
};

}  // namespace quern
