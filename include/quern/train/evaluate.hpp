#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quern/autograd/tape.hpp"
#include "quern/nn/model.hpp"
#include "quern/train/batches.hpp"
#include "quern/train/config.hpp"
#include "quern/watch/events.hpp"

namespace quern {

struct Evaluation {
  double loss = 0;  // nats per target token; of numbers the mean squared error
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;           // of text that these tokens stand for
  std::vector<TaskMetric> metrics;  // the task's

  double perplexity() const;
  double bits_per_byte() const;
};

/// The mean cost over all targets of `batches`, without dropout, and the task's metrics:
///   a text's hidden tokens, tags, aligned symbols   accuracy, the share of targets told right
///   labels and tags                                 macro_f1 beside it
///   answers                                         accuracy and exact_match, the share of rows without a
///   mistake.
///                                                   That is greedy decoding's: while all is right, both read
///                                                   the same
///   numbers                                         mse and r2
/// Nothing when `cancelled` said so between two batches.
std::optional<Evaluation> evaluate(const Config& config, const Model& model, Workspace& workspace,
                                   EvalBatches& batches, const std::function<bool()>& cancelled);

}  // namespace quern
