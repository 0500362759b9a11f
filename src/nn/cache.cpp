#include "quern/nn/cache.hpp"

#include <algorithm>
#include <array>

namespace quern {

KVCache::KVCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, Type type)
    : capacity_(capacity), rolls_(false) {
  if (config.attention == AttentionKind::linear) {
    keep_states(config.n_layers,
                std::array{batch, key_heads(config),
                           linear_attention_state_size(feature_count(config), head_width(config))});
    return;
  }
  if (config.attention == AttentionKind::sliding_window) {
    const std::int64_t enough = config.global_tokens + config.window - 1 + longest_part;
    rolls_ = capacity >= enough;
    capacity_ = std::min(capacity, enough);
  }
  const std::int64_t shape[] = {batch, capacity_, key_heads(config) * head_width(config)};
  const std::int64_t bytes = Tensor(nullptr, type, shape).bytes();
  numbers_.reset(new char[static_cast<std::size_t>(config.n_layers * 2 * bytes)]);
  char* next = numbers_.get();
  const auto take = [&] {
    const Tensor part(next, type, shape);
    next += bytes;
    return part;
  };
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    const Tensor keys = take(), values = take();
    layers_.push_back({keys, values, {}});
  }
}

KVCache::KVCache(std::int64_t n_layers, std::span<const std::int64_t> state) : capacity_(0), rolls_(true) {
  keep_states(n_layers, state);
}

void KVCache::keep_states(std::int64_t n_layers, std::span<const std::int64_t> state) {
  rolls_ = true;
  const std::int64_t bytes = Tensor(nullptr, Type::f32, state).bytes();
  numbers_.reset(new char[static_cast<std::size_t>(n_layers * bytes)]);
  for (std::int64_t i = 0; i < n_layers; ++i)
    layers_.push_back({{}, {}, Tensor(numbers_.get() + i * bytes, Type::f32, state)});
}

void KVCache::clear() {
  for (LayerCache& layer : layers_) layer.length = layer.dropped = 0;
}

}  // namespace quern
