#include "quern/nn/cache.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace quern {
namespace {

/// `layers` pairs of keys and values of this shape.
std::vector<LayerCache> make_pairs(std::unique_ptr<char[]>& numbers, std::int64_t layers, Type type,
                                   std::span<const std::int64_t> shape) {
  const std::int64_t bytes = Tensor(nullptr, type, shape).bytes();
  numbers.reset(new char[static_cast<std::size_t>(layers * 2 * bytes)]);
  std::vector<LayerCache> pairs;
  for (char* next = numbers.get(); static_cast<std::int64_t>(pairs.size()) < layers; next += 2 * bytes)
    pairs.push_back({Tensor(next, type, shape), Tensor(next + bytes, type, shape), {}});
  return pairs;
}

/// Sequence b becomes what sequence parents[b] was, of x (B,…).
void reorder_sequences(const Tensor& x, std::span<const std::int64_t> parents, std::vector<char>& copy) {
  if (!x) return;
  const auto bytes = static_cast<std::size_t>(x.bytes());
  const std::size_t each = bytes / parents.size();
  copy.assign(x.at(0), x.at(0) + bytes);
  for (std::size_t b = 0; b < parents.size(); ++b)
    std::memcpy(x.at(0) + b * each, copy.data() + static_cast<std::size_t>(parents[b]) * each, each);
}

}  // namespace

KVCache::KVCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, Type type,
                 std::int64_t memory_length)
    : capacity_(capacity), rolls_(false) {
  const bool recurrent = config.architecture == Architecture::rnn;
  const bool asks = recurrent && config.score == ScoreKind::additive;  // keys are as wide as the memory
  const std::int64_t K = asks ? config.d_model : key_heads(config) * head_width(config);
  if (memory_length > 0) {
    const std::int64_t shape[] = {batch, memory_length, K};
    memory_ = make_pairs(memory_numbers_, recurrent ? 1 : config.n_layers, type, shape);
  }
  if (recurrent) {
    keep_states(config.n_layers, std::array{batch, state_width(config.cell, config.d_model)});
    return;
  }
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
  const std::int64_t shape[] = {batch, capacity_, K};
  layers_ = make_pairs(numbers_, config.n_layers, type, shape);
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
  for (LayerCache& layer : memory_) layer.length = 0;
}

void KVCache::reorder(std::span<const std::int64_t> parents) {
  std::vector<char> copy;
  for (const LayerCache& layer : layers_)
    for (const Tensor& numbers : {layer.keys, layer.values, layer.sums})
      reorder_sequences(numbers, parents, copy);
}

}  // namespace quern
