// A model that reads a growing text once: its cache, and the memory it works in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "quern/autograd/tape.hpp"
#include "quern/nn/cache.hpp"
#include "quern/nn/model.hpp"

namespace quern {

/// Reads one sequence of tokens, keeping the keys and values of the tokens read.
class Reader {
 public:
  explicit Reader(const Model& model);

  /// The most tokens that can be held; nothing for a model without a table of positions, whose cache grows.
  std::optional<std::int64_t> limit() const;
  std::int64_t length() const { return cache_->length(); }

  /// Reads `ids` (at least one) behind what is held and gives the logits of the last, valid until the next
  /// call  // (V) Long texts are read in parts, which bounds the memory. A bug beyond limit().
  std::span<const float> read(std::span<const std::int32_t> ids);

  /// Forgets everything that was read.
  void clear() { cache_->clear(); }

 private:
  void make_room(std::int64_t tokens);

  const Model& model_;
  std::unique_ptr<KVCache> cache_;
  Workspace workspace_;
  std::vector<float> logits_;  // (V)
};

}  // namespace quern
