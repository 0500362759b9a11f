#pragma once

#include <memory>
#include <span>
#include <vector>

#include "quern/nn/attention.hpp"

namespace quern {

/// The keys and values of every layer: what a model that generates need not compute again. With a sliding
/// window old ones make room for new ones, so that a window's cache does not grow with the text; linear
/// attention has its running sums in their place, and a recurrent layer its state.
class KVCache {
 public:
  /// The most tokens that a rolling cache takes at once.
  static constexpr std::int64_t longest_part = 256;

  /// Room for `capacity` tokens of `batch` sequences, but with a sliding window for no more than the
  /// global tokens, the window - 1 tokens that the next one sees and `longest_part` new ones. `type` is that
  /// of the model's products. With a `memory_length` there is room for the keys and values that
  /// cross-attention makes of so many tokens.
  KVCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, Type type,
          std::int64_t memory_length = 0);
  LayerCache* layer(std::size_t i) { return &layers_[i]; }
  /// Of the memory; null when the model has no cross-attention.
  LayerCache* memory(std::size_t i) { return memory_.empty() ? nullptr : &memory_[i]; }
  /// Tokens read so far.
  std::int64_t length() const { return layers_.empty() ? 0 : layers_[0].length; }
  std::int64_t capacity() const { return capacity_; }
  /// Whether there is room for any number of tokens: those behind the window go, or there are only sums
  /// or states.
  bool rolls() const { return rolls_; }
  void clear();
  /// Sequence b goes on from what sequence parents[b] holds  // (B). Its memory must be the same.
  void reorder(std::span<const std::int64_t> parents);

 private:
  void keep_states(std::int64_t n_layers, std::span<const std::int64_t> state);

  std::int64_t capacity_;
  bool rolls_;
  std::unique_ptr<char[]> numbers_;         // (layers,2,B,capacity,Hkv*D), or (layers,B,…)
  std::unique_ptr<char[]> memory_numbers_;  // (layers,2,B,memory_length,Hkv*D)
  std::vector<LayerCache> layers_, memory_;
};

}  // namespace quern
