#pragma once

#include <optional>

#include "quern/autograd/recompute.hpp"
#include "quern/nn/attention.hpp"
#include "quern/nn/feed_forward.hpp"
#include "quern/nn/norm.hpp"

namespace quern {

/// What flows between blocks: the residual stream and the last branch, not yet added to it (none at the
/// start), so that the addition is one pass with the next norm.  // (B,T,C) both
struct Flow {
  Var stream, branch;
};

/// What a decoder's cross-attention reads: an encoder's output.
struct Memory {
  Var states;                             // (B,S,C), or none
  const std::int32_t* lengths = nullptr;  // (B): tokens at or beyond are padding; null: none are
  AttentionProbe* probe = nullptr;        // who wants to see the weights on it, or null
};

/// What a block keeps of the tokens read so far; null: nothing.
struct BlockCache {
  LayerCache *own = nullptr, *memory = nullptr;
};

/// Self-attention, in a decoder with a memory cross-attention, and feed-forward, each with its residual
/// connection.
///   pre-norm (Xiong et al. 2020, 2002.04745):   x = x + f(LN(x))
///   post-norm (Vaswani et al. 2017, section 3.1): x = LN(x + f(x))
struct Block {
  NormPlacement placement;
  Norm attention_norm;
  MultiHeadAttention attention;
  struct Cross {
    Norm norm;
    MultiHeadAttention attention;
  };
  std::optional<Cross> cross;
  Norm feed_forward_norm;
  FeedForward feed_forward;

  Block(const Scope& scope, const ModelConfig& config, AttentionRole role = AttentionRole::causal,
        bool reads_memory = false)
      : placement(config.norm_placement),
        attention_norm(scope / "attention_norm", config),
        attention(scope / "attention", config, role),
        feed_forward_norm(scope / "feed_forward_norm", config),
        feed_forward(scope / "feed_forward", config) {
    if (reads_memory)
      cross.emplace(Cross{Norm(scope / "cross_norm", config),
                          MultiHeadAttention(scope / "cross", config, AttentionRole::cross)});
  }

  Flow operator()(Tape& tape, Flow x, const AttentionContext& context, const Memory& memory,
                  BlockCache cache) const {
    const auto parts = recompute(
        tape, Recompute::block, {x.stream, x.branch, memory.states},
        [this, context, memory, cache](Tape& t, const RecomputeInputs& in) {
          const Flow y = forward(t, {in[0], in[1]}, context, {in[2], memory.lengths, memory.probe}, cache);
          return RecomputeOutputs{y.stream, y.branch};
        });
    return {parts[0], parts[1]};
  }

 private:
  Flow forward(Tape& tape, Flow x, const AttentionContext& context, const Memory& memory,
               BlockCache cache) const {
    if (placement == NormPlacement::pre) {
      const auto [a, a_normed] = attention_norm(tape, x.stream, x.branch);
      Flow y{a, attend(tape, attention, a_normed, a_normed, context, cache.own)};
      tape.consume(a_normed);
      if (cross) {
        const auto [c, c_normed] = cross->norm(tape, y.stream, y.branch);
        y = {c, look(tape, c_normed, context, memory, cache.memory)};
        tape.consume(c_normed);
      }
      const auto [f, f_normed] = feed_forward_norm(tape, y.stream, y.branch);
      const Var fed = feed_forward(tape, f_normed);
      tape.consume(f_normed);
      return {f, fed};
    }
    Var a = attention_norm(tape, x.stream, attend(tape, attention, x.stream, x.stream, context, cache.own))
                .normed;
    if (cross) a = cross->norm(tape, a, look(tape, a, context, memory, cache.memory)).normed;
    return {feed_forward_norm(tape, a, feed_forward(tape, a)).normed, Var()};
  }

  /// Cross-attention on the memory.
  Var look(Tape& tape, Var x, const AttentionContext& context, const Memory& memory,
           LayerCache* cache) const {
    AttentionContext of_memory;
    of_memory.lengths = memory.lengths;
    of_memory.probe = memory.probe;
    of_memory.layer = context.layer;
    return attend(tape, cross->attention, x, memory.states, of_memory, cache);
  }

  static Var attend(Tape& tape, const MultiHeadAttention& attention, Var x, Var memory,
                    const AttentionContext& context, LayerCache* cache) {
    const bool own = memory == x;
    return recompute(tape, Recompute::attention, {x, own ? Var() : memory},
                     [layer = &attention, own, context, cache](Tape& t, const RecomputeInputs& in) {
                       return RecomputeOutputs{(*layer)(t, in[0], own ? in[0] : in[1], context, cache)};
                     })[0];
  }
};

}  // namespace quern
