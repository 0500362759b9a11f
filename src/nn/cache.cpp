#include "quern/nn/cache.hpp"

namespace quern {

KVCache::KVCache(std::int64_t layers, std::int64_t batch, std::int64_t capacity, std::int64_t d_model,
                 Type type)
    : capacity_(capacity),
      numbers_(new char[static_cast<std::size_t>(layers * 2 * batch * capacity * d_model * size_of(type))]) {
  const std::int64_t shape[] = {batch, capacity, d_model};
  char* next = numbers_.get();
  const auto take = [&] {
    const Tensor part(next, type, shape);
    next += part.bytes();
    return part;
  };
  for (std::int64_t i = 0; i < layers; ++i) {
    const Tensor keys = take(), values = take();
    layers_.push_back({keys, values, 0});
  }
}

void KVCache::clear() {
  for (LayerCache& layer : layers_) layer.length = 0;
}

}  // namespace quern
