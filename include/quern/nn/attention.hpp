#pragma once

#include <vector>

#include "quern/nn/config.hpp"
#include "quern/nn/linear.hpp"

namespace quern {

/// One layer's keys and values of the tokens read so far; in cross-attention those of the memory, whole.
struct LayerCache {
  Tensor keys, values;       // (B,capacity,Hkv*D); of linear attention none, but
  Tensor sums;               // (B,Hkv,state size), the running sums of all tokens; of a recurrent layer
                             // (B,state_width), its state
  std::int64_t length = 0;   // tokens read so far
  std::int64_t dropped = 0;  // of these, those that no later token sees: row r holds token r + dropped, and
                             // token r when that is a global one

  std::int64_t held() const { return length - dropped; }
};

/// Asks the layers of a forward for their attention weights, which a slow and exact path computes beside the
/// fast one.
struct AttentionProbe {
  std::vector<std::int64_t> layers, heads;  // those wanted; empty: all

  struct Weights {
    std::int64_t layer, head;
    std::int64_t columns;        // S: the keys, or low-rank attention's mixtures of them
    bool mixtures;               // which of the two
    std::vector<float> weights;  // (B,T,S): each row sums to 1, or is 0 where nothing is seen
  };
  std::vector<Weights> found;  // in the order of layers, then heads
};

/// Whose tokens see whose.
enum class AttentionRole {
  causal,     // a decoder's own: those before and itself
  both_ways,  // an encoder's own: all
  cross,      // a decoder's on the memory: all
};

/// What the layers of one call share: where its tokens stand and what they see. All of it outlives the tape.
struct AttentionContext {
  Var rotations;                          // of x's positions (T,D), or none; self-attention alone
  const std::int32_t* lengths = nullptr;  // (B): tokens at or beyond are padding; null: none are
  const std::int32_t* starts = nullptr;   // (B,T): see Tokens; self-attention without a cache
  AttentionProbe* probe = nullptr;        // who wants to see weights, or null
  std::int64_t layer = 0;                 // which one it is
};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2): x asks, the memory answers. Self-attention when
/// the memory is x: one product for q, k and v, which are columns of it. Else cross-attention: q from x, and
/// one product for k and v from the memory, which is seen as a whole, without positions. Keys and values may
/// have fewer heads than queries (Ainslie et al. 2023, 2305.13245); queries and keys may be normalised
/// (QK-norm) and, in self-attention, turned by their positions (RoPE).
/// The score is one of ScoreKind: general has a matrix (D,D) a head (Luong et al. 2015, 1508.04025), additive
/// a vector (Bahdanau et al. 2014, 1409.0473), whose other two matrices are the projections of queries and
/// keys.
struct MultiHeadAttention {
  std::string path;
  std::int64_t heads, key_heads;
  Linear qkv;                  // (C + 2 Hkv*D,C): the rows of q, then k, then v
  Parameter *q_gain, *k_gain;  // (D) of the QK-norm, or absent
  float eps;                   // of the QK-norm
  ScoreKind score;
  bool linear;                               // linear attention (Katharopoulos et al. 2020, 2006.16236)
  Parameter* directions;                     // (M,D), fixed: of favor's features; or absent
  Parameter *key_mixtures, *value_mixtures;  // (R,context_length) of low-rank attention (Wang et al. 2020,
                                             // 2006.04768); or absent
  Parameter* score_weight;                   // (H*D,D) of general scores, (H,D) of additive ones; or absent
  Linear out;                                // (C,C)
  DropoutSite dropout;                       // of the attention weights
  bool causal;                               // see AttentionRole
  std::int64_t window;                       // the tokens that a token sees; 0: all
  std::int64_t globals;                      // with a window: the first tokens, which all see
  std::vector<float> slopes;                 // (H), ALiBi's; or empty

  MultiHeadAttention(const Scope& scope, const ModelConfig& config,
                     AttentionRole role = AttentionRole::causal);

  /// x (B,T,C), memory (B,S,C) or x itself -> (B,T,C). With a cache the same kernel runs: in self-attention x
  /// continues the tokens it holds and is appended to it; in cross-attention the first call puts the memory's
  /// keys and values there, and later ones read them and need the memory's shape alone.
  Var operator()(Tape& tape, Var x, Var memory, const AttentionContext& context, LayerCache* cache) const;

 private:
  struct Heads {
    Var q, k, v;
  };
  Heads self(Tape& tape, Var x, const AttentionContext& context, LayerCache* cache,
             AttentionMask& mask) const;
  Heads cross(Tape& tape, Var x, Var memory, LayerCache* cache) const;
  /// Tells the probe its weights.
  void show(Tape& tape, AttentionProbe& probe, std::int64_t layer, const Heads& of, const AttentionMask& mask,
            const float* bias) const;
  /// Puts T new keys and values behind those of the cache; gives where they begin.
  std::int64_t append(LayerCache& cache, const Tensor& keys, const Tensor& values) const;
  /// What the queries get from the values; linear attention goes on from the sums of a cache.
  Var attended(Tape& tape, const Heads& of, const AttentionMask& mask, const float* bias,
               LayerCache* cache) const;
  /// Queries as the score takes them.
  Var query(Tape& tape, Var q, Var rotations) const;
  /// What scores that are products are multiplied by.
  float scale(std::int64_t width) const {
    return score == ScoreKind::scaled_dot ? attention_scale(width) : 1;
  }
  /// Queries or keys as attention takes them.
  Var placed(Tape& tape, Var x, std::int64_t heads_of_x, Var rotations, Parameter* gain) const;
};

}  // namespace quern
