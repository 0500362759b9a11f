// Evaluation over a whole split: every token counted exactly once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "quern/data/tokens.hpp"
#include "quern/data/windows.hpp"
#include "quern/text/tokenizer.hpp"

namespace quern {

/// How a split is evaluated: data.eval_stride, run.batch_size, run.eval_batches, model.context_length.
struct EvalOptions {
  std::int64_t context_length = 0;                // T >= 1
  std::int64_t stride = 0;                        // 0 … T
  std::int64_t batch_size = 1;                    // rows of a batch; the last may have fewer
  std::int64_t batches = 0;                       // 0: the whole split
  std::optional<Masking> masking = std::nullopt;  // then windows of tokens that are their own targets
};

/// The windows over n tokens, of which n - 1 are targets (the first has nothing before it). Window i covers
/// the targets [s_i, s_i + T) with s_i = min(i * S, n - 1 - T), S = stride, or T for stride 0; of these count
/// those that no window before it has covered, the others are kIgnore. So windows all have length T, the
/// first counts T targets, the later ones S (T: they do not overlap), and the last, moved back to end with
/// the split, what is left.
///
/// `batches` k > 0 takes k * batch_size of the W windows, those numbered floor(j * W / (k * batch_size)), and
/// the whole split when there are no more than that. With masking, tokens that an earlier window counted are
/// not told again; where so few tokens are evaluated that none would be told, the one with the least draw is.
class EvalWindows {
 public:
  /// `tokens` and `tokenizer` outlive this; n >= T + 1. Throws Error(config) for a stride above T, which
  /// would leave tokens out.
  EvalWindows(TokenView tokens, const Tokenizer& tokenizer, const EvalOptions& options);

  std::int64_t windows() const { return taken_; }
  std::int64_t batches() const { return (taken_ + options_.batch_size - 1) / options_.batch_size; }

  /// Targets that count, over all batches; n - 1 for the whole split. Without masking.
  std::int64_t target_tokens() const;

  /// Batch i of batches(): rows with their count of target tokens and of the bytes these stand for, so that
  /// bits per byte are sum of nats / (ln 2 * sum of target_bytes).
  Batch batch(std::int64_t i);

 private:
  struct Window {
    std::int64_t start;    // of its inputs
    std::int64_t ignored;  // targets at its beginning that an earlier window counted
  };
  Window window(std::int64_t j) const;
  void hide_at_least_one();

  TokenView tokens_;
  const Tokenizer* tokenizer_;
  EvalOptions options_;
  std::int64_t all_ = 0;    // windows over the whole split
  std::int64_t taken_ = 0;  // windows that are evaluated
  BatchBuffer buffer_;
};

}  // namespace quern
