#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "quern/autograd/tape.hpp"
#include "quern/data/corpus.hpp"
#include "quern/data/evaluation.hpp"
#include "quern/nn/transformer.hpp"
#include "quern/train/config.hpp"

namespace quern {

struct Evaluation {
  double loss = 0;  // nats per target token
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;  // of text that these tokens stand for

  double perplexity() const;
  double bits_per_byte() const;
};

/// The windows that a run evaluates its validation split over; nothing when it has no such split. Keeps a
/// view of the corpus.
std::optional<EvalWindows> validation_windows(const Config& config, const Corpus& corpus);

/// The mean cost over all targets of `windows`, without dropout. Nothing when `cancelled` said so between two
/// batches.
std::optional<Evaluation> evaluate(const Transformer& model, Workspace& workspace, EvalWindows& windows,
                                   const std::function<bool()>& cancelled);

}  // namespace quern
