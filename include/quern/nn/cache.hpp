#pragma once

#include <memory>
#include <vector>

#include "quern/nn/attention.hpp"

namespace quern {

/// The keys and values of every layer: what a model that generates need not compute again.
class KVCache {
 public:
  /// Room for `capacity` tokens of `batch` sequences; `type` is that of the model's products.
  KVCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, Type type);

  LayerCache* layer(std::size_t i) { return &layers_[i]; }
  std::int64_t length() const { return layers_.empty() ? 0 : layers_[0].length; }
  std::int64_t capacity() const { return capacity_; }
  void clear();

 private:
  std::int64_t capacity_;
  std::unique_ptr<char[]> numbers_;  // (layers,2,B,capacity,Hkv*D)
  std::vector<LayerCache> layers_;
};

}  // namespace quern
