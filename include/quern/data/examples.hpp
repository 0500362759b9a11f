// Learning from single examples, in contrast to windows of one long text: questions with answers, lines with
// labels, images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quern/data/batch.hpp"
#include "quern/data/config.hpp"
#include "quern/data/problems.hpp"
#include "quern/text/tokenizer.hpp"

namespace quern {

/// The tokens of an example.
struct Lengths {
  std::int64_t source = 0, inputs = 0;

  std::int64_t both() const { return source + inputs; }
};

/// One row of a batch, before padding.
struct Example {
  std::vector<std::int32_t> source;   // (S): what an encoder reads for a decoder, or empty
  std::vector<std::int32_t> inputs;   // (T)
  std::vector<std::int32_t> targets;  // (T), kIgnore where a position does not count; of a label (1)
  float value = 0;                    // a number to tell
  std::vector<float> patches;         // (T,P): an image, whose inputs then count 0 … T - 1

  Lengths lengths() const {
    return {static_cast<std::int64_t>(source.size()), static_cast<std::int64_t>(inputs.size())};
  }
  std::int64_t longer_side() const { return std::max(lengths().source, lengths().inputs); }
};

/// What the rows of a batch have besides inputs.
enum class RowKind {
  classes,  // a target for each input
  label,    // one target
  value,    // a number
};

/// All examples of a task: example `index` of a split is a pure function.
struct Examples {
  RowKind kind = RowKind::classes;
  std::int64_t train = 0;     // how many there are to learn from; 0: without end
  std::int64_t held_out = 0;  // how many an evaluation takes
  /// How many an evaluation of a split takes: all, or of those without end as many as of the held-out ones.
  std::int64_t evaluated(Split split) const { return split == Split::train && train > 0 ? train : held_out; }
  std::function<void(Split, std::int64_t index, Example& to)> get;
  std::function<Lengths(std::int64_t index)> lengths;  // of a training example, when train is not 0
};

/// Gathers examples as a batch, padded to the longest of them. Lengths that vary are rounded up to multiples
/// of 8, as far as `most` allows, so that products meet few shapes.
class ExampleBuffer {
 public:
  explicit ExampleBuffer(std::int64_t most) : most_(most) {}

  /// get(i, example) gives row i.
  Batch gather(RowKind kind, std::int64_t rows, std::int64_t first_row,
               const std::function<void(std::int64_t, Example&)>& get);

 private:
  struct Side {
    std::vector<std::int32_t> tokens, lengths;
    std::int64_t length = 0;
    bool padded = false;
  };
  template <class Get>
  void pad(Side& side, std::int64_t rows, const Get& get) const;

  std::int64_t most_;
  std::vector<Example> examples_;
  Side inputs_, source_;
  std::vector<std::int32_t> targets_;
  std::vector<float> values_, patches_;
};

/// How examples become the batches of a step.
struct ExampleOrder {
  WindowOrder order = WindowOrder::random;  // random: drawn with replacement; shuffle: each once an epoch
  std::uint64_t seed = 0;
  std::int64_t batch_size = 1;  // rows of a micro-batch
  /// Above 0: as many rows as have, padded, no more tokens than this (both sides), in place of batch_size.
  std::int64_t batch_tokens = 0;
  std::int64_t micro_batches = 1;
  std::int64_t context_length = 0;  // no side of an example is longer
};

/// The examples of training. Which ones a micro-batch holds is a pure function of (seed, step, micro-batch).
/// Without end: each once, in order. Else as ExampleOrder says. With batch_tokens the examples of an epoch
/// are sorted by length, equals in an order of the epoch's own, and cut where the next would make the batch
/// too large; the batches come in an order of the epoch's own.
class ExampleSampler {
 public:
  /// Throws Error(config) when an example alone has more than batch_tokens, and for a step of too many rows
  /// (see require_countable).
  ExampleSampler(const Examples& examples, const ExampleOrder& order);

  /// Micro-batch i of a step (see require_drawable).
  Batch batch(std::int64_t step, std::int64_t i);

  /// The numbers of the examples that a step's micro-batches hold, in order.
  std::vector<std::int64_t> numbers(std::int64_t step);

 private:
  std::pair<std::int64_t, std::int64_t> cut_of(std::int64_t step, std::int64_t i);
  std::int64_t index(std::int64_t step, std::int64_t row) const;
  void sort_epoch(std::int64_t epoch);
  void cut();

  const Examples* examples_;
  ExampleOrder order_;
  ExampleBuffer buffer_;
  // With batch_tokens, for the epoch at hand:
  std::vector<Lengths> lengths_;      // (train), of each example
  std::vector<std::int64_t> sorted_;  // (train), the examples by length
  std::vector<std::int64_t> cuts_;    // where batches begin in sorted_, and its end
  std::int64_t epoch_ = -1;
};

/// The examples of an evaluation: those of a split in order, or `batches` batches of them.
class ExampleEvaluation {
 public:
  ExampleEvaluation(const Examples& examples, Split split, std::int64_t batch_size, std::int64_t batches,
                    std::int64_t context_length);

  std::int64_t rows() const { return rows_; }
  std::int64_t batches() const { return (rows_ + batch_size_ - 1) / batch_size_; }
  Batch batch(std::int64_t i);

 private:
  const Examples* examples_;
  Split split_;
  std::int64_t batch_size_, rows_;
  ExampleBuffer buffer_;
};

}  // namespace quern
