// What load_dataset is made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/data/dataset.hpp"

namespace quern {

/// The data.text of classification, tagging, regression and translation, or data.source and data.target.
Dataset load_records(const DataConfig& config, const DataShape& shape,
                     const std::optional<Tokenizer>& tokenizer);

/// Images and shapes, cut into patches.
Dataset load_images(const DataConfig& config, const DataShape& shape);

std::optional<std::int32_t> index_of(const std::vector<std::string>& list, const std::string& wanted);

/// Throws Error(config) when the longest row does not fit into the context.
void require_context(TaskKind task, std::int64_t longest, const DataShape& shape);

}  // namespace quern
