#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/nn/block.hpp"
#include "quern/nn/config.hpp"
#include "quern/nn/recurrent.hpp"

namespace quern {

/// The recurrent network that reads and writes: a bidirectional encoder (Schuster & Paliwal 1997), whose
/// layers take half of the width each way, and a decoder that asks the encoder's output, its memory, at every
/// step.
///   additive scores      a GRU asks before its step, with the state before (Bahdanau et al. 2014,
///   1409.0473);
///                        it starts from what the encoder's way back came to, tanh(W_s h) (A.2.2)
///   the other scores     recurrent layers, then attention with their output (Luong et al. 2015, 1508.04025)
/// What comes out is a linear layer of the state and of what it got from the memory, side by side; Luong's
/// puts tanh over it (section 3, equation 5).
struct RecurrentTranslator {
  std::string path, embedding_path;
  Parameter* tokens;  // (V,C), of both sides
  struct BothWays {
    RecurrentLayer forward, backward;  // (B,S,C) -> (B,S,C/2)
  };
  std::vector<BothWays> encoder;
  /// Bahdanau's decoder.
  struct Additive {
    Linear keys, input, start;                                 // (C,C), (3C,C), (C,C/2)
    Parameter *w_query, *v, *w_context, *w_hidden, *b_hidden;  // (C,C), (C), (3C,C), (3C,C), (3C)

    Additive(const Scope& scope, std::int64_t width);
  };
  std::optional<Additive> additive;
  std::vector<RecurrentLayer> decoder;          // Luong's
  std::optional<MultiHeadAttention> attention;  // Luong's
  Linear readout;                               // (C,2C)
  DropoutSite source_dropout, target_dropout;

  RecurrentTranslator(const Scope& scope, const ModelConfig& config);

  /// ids (B,S) -> (B,S,C)
  Var encode(Tape& tape, Tokens source) const;
  /// ids (B,T) on a memory (B,S,C) -> (B,T,C). With a cache the tokens continue what it holds, and the memory
  /// is needed in the first call alone; later ones take its shape.
  Var decode(Tape& tape, Tokens ids, const Memory& memory, KVCache* cache) const;

 private:
  Var embed(Tape& tape, Tokens ids, DropoutSite dropout) const;
  Var ask(Tape& tape, Var x, const Memory& memory, KVCache* cache) const;
};

}  // namespace quern
