#include "quern/nn/cache.hpp"

namespace quern {

KVCache::KVCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, Type type)
    : capacity_(capacity) {
  const std::int64_t shape[] = {batch, capacity, key_heads(config) * head_width(config)};
  const std::int64_t bytes = Tensor(nullptr, type, shape).bytes();
  numbers_.reset(new char[static_cast<std::size_t>(config.n_layers * 2 * bytes)]);
  char* next = numbers_.get();
  const auto take = [&] {
    const Tensor part(next, type, shape);
    next += part.bytes();
    return part;
  };
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    const Tensor keys = take(), values = take();
    layers_.push_back({keys, values, 0});
  }
}

void KVCache::clear() {
  for (LayerCache& layer : layers_) layer.length = 0;
}

}  // namespace quern
