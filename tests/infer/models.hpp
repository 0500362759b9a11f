// Small models for the tests of generation.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "quern/nn/model.hpp"

namespace quern::reference {

inline ModelConfig small_config(NormPlacement placement, PositionKind position, std::int64_t vocabulary,
                                std::int64_t context) {
  ModelConfig config;
  config.d_model = 16;
  config.n_layers = 2;
  config.n_heads = 2;
  config.vocab_size = vocabulary;
  config.context_length = context;
  config.norm_placement = placement;
  config.position = position;
  config.init = InitKind::xavier;
  return config;
}

inline std::unique_ptr<Model> random_model(const ModelConfig& config, std::uint64_t seed = 1) {
  auto model = std::make_unique<Model>(config, false);
  model->parameters().initialise(seed);
  return model;
}

/// A model whose most likely token after x is next[x], whatever came before: embeddings are unit vectors,
/// branches add nothing, and row next[x] of the head looks at x.
inline std::unique_ptr<Model> chain_model(const std::vector<std::int32_t>& next, std::int64_t context,
                                          PositionKind position = PositionKind::none) {
  const auto V = static_cast<std::int64_t>(next.size());
  ModelConfig config;
  config.d_model = config.vocab_size = V;
  config.n_layers = config.n_heads = 1;
  config.d_ff = 1;
  config.context_length = context;
  config.tie_embeddings = false;
  config.position = position;
  auto model = random_model(config);
  for (Parameter& p : model->parameters().all()) {
    if (p.shape.size() < 2) continue;
    float* w = p.slot.value.f32();
    std::fill_n(w, p.size(), 0.0F);
    for (std::int64_t x = 0; x < V; ++x) {
      if (p.name == "decoder.embedding.tokens.weight") w[x * V + x] = 1;
      if (p.name == "head.weight") w[next[static_cast<std::size_t>(x)] * V + x] = 1;
    }
  }
  return model;
}

}  // namespace quern::reference
