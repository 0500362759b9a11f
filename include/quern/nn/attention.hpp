#pragma once

#include <vector>

#include "quern/nn/config.hpp"
#include "quern/nn/linear.hpp"

namespace quern {

/// One layer's keys and values of the tokens read so far.
struct LayerCache {
  Tensor keys, values;       // (B,capacity,Hkv*D); of linear attention none, but
  Tensor sums;               // (B,Hkv,state size), the running sums of all tokens
  std::int64_t length = 0;   // tokens read so far
  std::int64_t dropped = 0;  // of these, those that no later token sees: row 0 holds token `dropped`

  std::int64_t held() const { return length - dropped; }
};

/// Multi-head self-attention (Vaswani et al. 2017, section 3.2.2): one product for q, k and v, which are
/// columns of it. Keys and values may have fewer heads than queries (Ainslie et al. 2023, 2305.13245);
/// queries and keys may be normalised (QK-norm) and turned by their positions (RoPE). The score is one of
/// ScoreKind: general has a matrix (D,D) a head (Luong et al. 2015, 1508.04025), additive a vector (Bahdanau
/// et al. 2014, 1409.0473), whose other two matrices are the projections of queries and keys.
struct MultiHeadAttention {
  std::string path;
  std::int64_t heads, key_heads;
  Linear qkv;                  // (C + 2 Hkv*D,C): the rows of q, then k, then v
  Parameter *q_gain, *k_gain;  // (D) of the QK-norm, or absent
  float eps;                   // of the QK-norm
  ScoreKind score;
  bool linear;                // linear attention (Katharopoulos et al. 2020, 2006.16236)
  Parameter* directions;      // (M,D), fixed: of favor's features; or absent
  Parameter* score_weight;    // (H*D,D) of general scores, (H,D) of additive ones; or absent
  Linear out;                 // (C,C)
  DropoutSite dropout;        // of the attention weights
  std::int64_t window;        // the tokens that a token sees; 0: all
  std::vector<float> slopes;  // (H), ALiBi's; or empty

  MultiHeadAttention(const Scope& scope, const ModelConfig& config);

  /// x (B,T,C) -> (B,T,C), causal. `rotations` are those of x's positions (T,D), or none. With a cache, x
  /// continues the tokens it holds and is appended to it; the same kernel runs.
  Var operator()(Tape& tape, Var x, Var rotations, LayerCache* cache) const;

 private:
  /// Puts T new keys and values behind those of the cache; gives where they begin.
  std::int64_t append(LayerCache& cache, const Tensor& keys, const Tensor& values) const;
  /// What the queries get from the values; with a cache, behind the tokens it holds.
  Var attended(Tape& tape, Var q, Var k, Var v, LayerCache* cache) const;
  /// Queries or keys as attention takes them.
  Var placed(Tape& tape, Var x, std::int64_t heads_of_x, Var rotations, Parameter* gain) const;
};

}  // namespace quern
