// What load_dataset is made of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/data/dataset.hpp"

namespace quern {

/// The data.text of classification, tagging, regression and translation, or data.source and data.target.
Dataset load_records(const DataConfig& config, const DataShape& shape,
                     const std::optional<Tokenizer>& tokenizer);

/// Images and shapes, cut into patches.
Dataset load_images(const DataConfig& config, const DataShape& shape);

/// The numbers of labels, which outlive it.
class LabelIndex {
 public:
  explicit LabelIndex(const std::vector<std::string>& labels);
  /// Of labels that stand twice the first; none for one that is not there.
  std::optional<std::int32_t> find(std::string_view label) const;

 private:
  std::vector<std::pair<std::string_view, std::int32_t>> sorted_;
};

/// Throws Error(file) where that many labels with that many bytes together are more than a run's config
/// holds.
void check_labels(std::size_t count, std::size_t bytes, const std::string& place);

/// Throws Error(config) when the longest row does not fit into the context.
void require_context(TaskKind task, std::int64_t longest, const DataShape& shape);

}  // namespace quern
