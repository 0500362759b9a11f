// Small models, of every choice of the config.
#pragma once

#include <vector>

#include "quern/nn/config.hpp"

namespace quern::test {

struct Case {
  const char* name;
  ModelConfig config;
  float label_smoothing;
};

inline ModelConfig small(std::int64_t d_model, std::int64_t heads, NormPlacement placement,
                         PositionKind position, Activation activation, bool tied) {
  ModelConfig config;
  config.d_model = d_model;
  config.n_heads = heads;
  config.n_layers = 2;
  config.d_ff = 2 * d_model;
  config.vocab_size = 7;
  config.context_length = 6;
  config.norm_placement = placement;
  config.position = position;
  config.activation = activation;
  config.tie_embeddings = tied;
  config.init = InitKind::xavier;
  return config;
}

/// Every choice of the config stands in one of them, dropout in half.
inline std::vector<Case> cases(std::int64_t d_model) {
  std::vector<Case> all = {
      {"pre", small(d_model, 2, NormPlacement::pre, PositionKind::learned, Activation::gelu, true), 0},
      {"post", small(d_model, 2, NormPlacement::post, PositionKind::sinusoidal, Activation::relu, false),
       0.1F},
      {"no bias", small(d_model, 1, NormPlacement::pre, PositionKind::none, Activation::gelu_erf, false),
       0.2F}};
  all[2].config.bias = false;
  all.push_back({"rmsnorm", all[0].config, 0});
  all.back().config.norm = NormKind::rmsnorm;
  all.back().config.activation = Activation::relu2;
  all.push_back({"llama", all[2].config, 0});
  all.back().config.activation = Activation::swiglu;
  all.back().config.norm = NormKind::rmsnorm;
  all.back().config.position = PositionKind::rope;
  all.back().config.rope_theta = 100;
  all.push_back({"qk norm", all[0].config, 0});
  all.back().config.qk_norm = true;
  all.back().config.n_kv_heads = 1;
  all.back().config.position = PositionKind::rope;
  all.push_back({"alibi in a window", all[0].config, 0});
  all.back().config.position = PositionKind::alibi;
  all.back().config.attention = AttentionKind::sliding_window;
  all.back().config.window = 3;
  all.push_back({"rope, a window and global tokens", all.back().config, 0});
  all.back().config.position = PositionKind::rope;
  all.back().config.window = 2;
  all.back().config.global_tokens = 2;
  for (const ScoreKind score : {ScoreKind::dot, ScoreKind::general, ScoreKind::additive}) {
    all.push_back({enum_name(score).data(), all[0].config, 0});
    all.back().config.score = score;
    all.back().config.n_kv_heads = 1;
    all.back().config.qk_norm = score == ScoreKind::dot;
    if (score != ScoreKind::additive) all.back().config.position = PositionKind::rope;
  }
  for (const FeatureMap map : {FeatureMap::elu, FeatureMap::favor}) {
    all.push_back({enum_name(map).data(), all[1].config, 0});
    all.back().config.activation = Activation::silu;  // no kink that rounding could cross
    all.back().config.attention = AttentionKind::linear;
    all.back().config.feature_map = map;
    all.back().config.n_kv_heads = 1;
    all.back().config.qk_norm = map == FeatureMap::favor;
  }
  const std::size_t n = all.size();
  for (std::size_t i = 0; i < n; ++i) {
    all.push_back(all[i]);
    all.back().config.dropout = 0.2;
    if (all.back().config.attention != AttentionKind::linear) all.back().config.attention_dropout = 0.3;
  }
  return all;
}

}  // namespace quern::test
