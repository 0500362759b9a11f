// The batches of training and of evaluation, whatever a run learns from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "quern/data/dataset.hpp"
#include "quern/data/evaluation.hpp"
#include "quern/data/windows.hpp"
#include "quern/nn/model.hpp"
#include "quern/train/config.hpp"

namespace quern {

/// Training's micro-batches: windows of a text, or examples. Keeps a view of the data.
class TrainBatches {
 public:
  TrainBatches(const Config& config, const Dataset& data);
  /// Windows of tokens, `rows` a micro-batch.
  TrainBatches(WindowSampler windows, std::int64_t rows) : of_(std::move(windows)), rows_(rows) {}

  explicit TrainBatches(ExampleSampler examples) : of_(std::move(examples)), rows_(0) {}

  /// Micro-batch i of a step, the first step being 0.
  Batch batch(std::int64_t step, std::int64_t i);

  /// What a step's batches hold, for a person: "the windows that begin at 12, 99 of the training tokens" or
  /// "the training examples 3, 8". Beyond 64 only their number is told.
  std::string describe(std::int64_t step);

 private:
  std::variant<WindowSampler, ExampleSampler> of_;
  std::int64_t rows_;
};

/// An evaluation's batches.
class EvalBatches {
 public:
  explicit EvalBatches(EvalWindows windows) : of_(std::move(windows)) {}
  explicit EvalBatches(ExampleEvaluation examples) : of_(std::move(examples)) {}

  std::int64_t rows() const;  // over all batches
  std::int64_t batches() const;
  Batch batch(std::int64_t i);

 private:
  std::variant<EvalWindows, ExampleEvaluation> of_;
};

/// The windows over a split of a text, which is not empty.
EvalWindows evaluation_windows(const Config& config, const Dataset& data, Split split = Split::val);

/// The batches over a split; nothing when it is empty. Of examples without end as many as the validation
/// split has, the first that training sees. Keeps a view of the data.
std::optional<EvalBatches> evaluation_batches(const Config& config, const Dataset& data,
                                              Split split = Split::val);

/// A batch as a model reads it, and its targets.
Input input_of(const Batch& batch);
Targets targets_of(const Batch& batch);

}  // namespace quern
