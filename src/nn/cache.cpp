#include "quern/nn/cache.hpp"

namespace quern {

KVCache::KVCache(std::int64_t layers, std::int64_t batch, std::int64_t capacity, std::int64_t d_model)
    : capacity_(capacity),
      numbers_(new float[static_cast<std::size_t>(layers * 2 * batch * capacity * d_model)]) {
  const std::int64_t one = batch * capacity * d_model;
  for (std::int64_t i = 0; i < layers; ++i)
    layers_.push_back({Tensor(numbers_.get() + 2 * i * one, {batch, capacity, d_model}),
                       Tensor(numbers_.get() + (2 * i + 1) * one, {batch, capacity, d_model}), 0});
}

void KVCache::clear() {
  for (LayerCache& layer : layers_) layer.length = 0;
}

}  // namespace quern
