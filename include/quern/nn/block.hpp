#pragma once

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

/// Self-attention and feed-forward, each with its residual connection.
///   pre-norm (Xiong et al. 2020, 2002.04745):   x = x + f(LN(x))
///   post-norm (Vaswani et al. 2017, section 3.1): x = LN(x + f(x))
struct Block {
  NormPlacement placement;
  Norm attention_norm;
  MultiHeadAttention attention;
  Norm feed_forward_norm;
  FeedForward feed_forward;

  Block(const Scope& scope, const ModelConfig& config)
      : placement(config.norm_placement),
        attention_norm(scope / "attention_norm", config),
        attention(scope / "attention", config),
        feed_forward_norm(scope / "feed_forward_norm", config),
        feed_forward(scope / "feed_forward", config) {}

  Flow operator()(Tape& tape, Flow x, const AttentionContext& context, LayerCache* cache) const {
    const auto parts = recompute(tape, Recompute::block, {x.stream, x.branch},
                                 [this, context, cache](Tape& t, const RecomputeInputs& in) {
                                   const Flow y = forward(t, {in[0], in[1]}, context, cache);
                                   return RecomputeOutputs{y.stream, y.branch};
                                 });
    return {parts[0], parts[1]};
  }

 private:
  Flow forward(Tape& tape, Flow x, const AttentionContext& context, LayerCache* cache) const {
    if (placement == NormPlacement::pre) {
      const auto [a, a_normed] = attention_norm(tape, x.stream, x.branch);
      const Var attended = attend(tape, a_normed, context, cache);
      tape.consume(a_normed);
      const auto [f, f_normed] = feed_forward_norm(tape, a, attended);
      const Var fed = feed_forward(tape, f_normed);
      tape.consume(f_normed);
      return {f, fed};
    }
    const Var a = attention_norm(tape, x.stream, attend(tape, x.stream, context, cache)).normed;
    return {feed_forward_norm(tape, a, feed_forward(tape, a)).normed, Var()};
  }

  Var attend(Tape& tape, Var x, const AttentionContext& context, LayerCache* cache) const {
    return recompute(tape, Recompute::attention, {x},
                     [this, context, cache](Tape& t, const RecomputeInputs& in) {
                       return RecomputeOutputs{attention(t, in[0], in[0], context, cache)};
                     })[0];
  }
};

}  // namespace quern
