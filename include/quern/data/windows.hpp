// Windows of T+1 tokens: the first T are inputs, the last T their targets, target[t] = input[t + 1].
// Which windows a training step sees is a pure function of (seed, step, row): there is no state to save, and
// any division of a step's rows into micro-batches or ranks gives the same windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "quern/data/batch.hpp"
#include "quern/data/config.hpp"
#include "quern/data/tokens.hpp"
#include "quern/text/tokenizer.hpp"

namespace quern {

/// Masked language modelling (Devlin et al. 2018, 1810.04805, section 3.1): of a window's tokens 15 % are to
/// be told; of these 80 % become `token`, 10 % any other and 10 % stay. Which ones is a pure function of
/// (seed, step, row, place): others in each step, the same in each evaluation. Targets of the others are
/// kIgnore.
struct Masking {
  std::int32_t token = 0;       // the mask, a token beyond the tokenizer's
  std::int32_t vocabulary = 0;  // the tokenizer's tokens
  std::uint64_t seed = 0;
  double share = 0.15;  // of the tokens, that are to be told
};

/// The draw in [0, 1) of a place: below masking.share its token is to be told.
double mask_draw(const Masking& masking, std::uint32_t step, std::int64_t row, std::int64_t place);

/// The inputs and targets of a batch, kept from one batch to the next so that no batch after the largest
/// allocates.
class BatchBuffer {
 public:
  /// Room for a batch, whose contents are then unspecified.
  void resize(std::int64_t rows, std::int64_t length);

  /// Row `row` becomes the window of length + 1 tokens that begins at `start`.
  void fill(std::int64_t row, TokenView tokens, std::int64_t start);

  /// Hides tokens of a row: see Masking. `index` is the row's own number.
  void mask(std::int64_t row, const Masking& masking, std::uint32_t step, std::int64_t index);

  /// The first `count` targets of a row become kIgnore.
  void ignore(std::int64_t row, std::int64_t count);

  const std::int32_t* inputs() const { return inputs_.data(); }
  const std::int32_t* targets() const { return targets_.data(); }
  /// Targets of the first `rows` rows that count.
  std::int64_t count_targets(std::int64_t rows) const;
  /// Null when the tokens know no documents.
  const std::int32_t* starts() const { return packed_ ? starts_.data() : nullptr; }

 private:
  std::int64_t length_ = 0;
  bool packed_ = false;
  std::vector<std::int32_t> inputs_, targets_, starts_;  // (B,T)
};

/// The windows of training. For n tokens:
///   random   each row's start is uniform in [0, n - T - 1], independent of all others;
///   shuffle  an epoch is the W = floor((n - 1) / T) windows that begin at o, o + T, o + 2T, …, each once, in
///   an order
///            of the epoch's own. They share no target. o is uniform in [0, (n - 1) mod T], of the epoch's
///            own too: the (n - 1) mod T targets that fill no window fall off at both ends and are others
///            each epoch. A step takes the next rows_per_step windows and may reach into the next epoch.
class WindowSampler {
 public:
  /// `tokens` outlives the sampler and holds at least T + 1; rows_per_step counts all micro-batches and
  /// ranks: see require_countable.
  /// With `masking` the inputs are their own targets.
  WindowSampler(TokenView tokens, std::int64_t context_length, WindowOrder order, std::uint64_t seed,
                std::int64_t rows_per_step, std::optional<Masking> masking = std::nullopt);

  /// The rows [first_row, first_row + rows) of a step (see require_drawable), counted as the first step being
  /// 0; rows end at rows_per_step.
  Batch batch(std::int64_t step, std::int64_t first_row, std::int64_t rows);

  /// Where the window of a row begins in the tokens.
  std::int64_t start(std::int64_t step, std::int64_t row) const;

  std::int64_t rows_per_step() const { return rows_per_step_; }

  /// W of an epoch in the order shuffle.
  std::int64_t windows_per_epoch() const { return (tokens_.size() - 1) / context_length_; }

 private:
  TokenView tokens_;
  std::int64_t context_length_;
  WindowOrder order_;
  std::uint64_t seed_;
  std::int64_t rows_per_step_;
  std::optional<Masking> masking_;
  BatchBuffer buffer_;
};

/// Throws Error(config) unless 0 <= step < 2^32: random numbers are drawn by 32 bits of it.
void require_drawable(std::int64_t step);
/// Throws Error(config) for more than 2^31 - 1 rows: no product with a step overflows then.
void require_countable(std::int64_t rows_per_step);

/// Image of `index` under a permutation of [0, n) that (seed, key) picks: a Feistel network on the smallest
/// square of a power of two that holds n, applied until the image falls below n (Black & Rogaway 2002,
/// "Ciphers with Arbitrary Finite Domains", section 3). No table, no state.
std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint32_t key);

}  // namespace quern
