#include "quern/data/evaluation.hpp"

#include <algorithm>
#include <string>

#include "quern/base/check.hpp"

namespace quern {
namespace {

constexpr std::uint32_t kEvaluationStep = 0xffffffff;  // no step of training draws as this one does

}  // namespace

EvalWindows::EvalWindows(TokenView tokens, const Tokenizer& tokenizer, const EvalOptions& options)
    : tokens_(tokens), tokenizer_(&tokenizer), options_(options) {
  const std::int64_t length = options.context_length;
  QUERN_CHECK(length >= 1 && tokens.size() > length, length, tokens.size());
  QUERN_CHECK(options.stride >= 0 && options.batch_size >= 1 && options.batches >= 0, options.stride,
              options.batch_size, options.batches);
  if (options.stride > length) {
    throw Error(ErrorKind::config,
                "data.eval_stride " + std::to_string(options.stride) +
                    " is larger than model.context_length " + std::to_string(length) +
                    ": tokens between two windows would not count",
                "0 for windows that do not overlap, or 1 to " + std::to_string(length));
  }
  if (options.stride == 0) options_.stride = length;
  const std::int64_t behind_first = tokens.size() - 1 - length;
  all_ = 1 + (behind_first + options_.stride - 1) / options_.stride;
  taken_ = options.batches == 0 || options.batches >= (all_ + options.batch_size - 1) / options.batch_size
               ? all_
               : options.batches * options.batch_size;
  if (options_.masking) hide_at_least_one();
}

/// Raises the share of tokens that are told to what the least draw needs, where that is all that would be
/// told.
void EvalWindows::hide_at_least_one() {
  Masking& masking = *options_.masking;
  double least = 1;
  for (std::int64_t j = 0; j < taken_; ++j) {
    for (std::int64_t t = window(j).ignored; t < options_.context_length; ++t) {
      least = std::min(least, mask_draw(masking, kEvaluationStep, j, t));
      if (least < masking.share) return;
    }
  }
  masking.share = least + 0x1p-32;  // the next draw's
}

EvalWindows::Window EvalWindows::window(std::int64_t j) const {
  const std::int64_t i = j * all_ / taken_;
  const std::int64_t start = std::min(i * options_.stride, tokens_.size() - 1 - options_.context_length);
  const std::int64_t covered = i == 0 ? 0 : (i - 1) * options_.stride + options_.context_length;
  return {start, std::max<std::int64_t>(covered - start, 0)};
}

std::int64_t EvalWindows::target_tokens() const {
  std::int64_t total = 0;
  for (std::int64_t j = 0; j < taken_; ++j) total += options_.context_length - window(j).ignored;
  return total;
}

Batch EvalWindows::batch(std::int64_t i) {
  QUERN_CHECK(i >= 0 && i < batches(), i, batches());
  const std::int64_t length = options_.context_length;
  const std::int64_t first = i * options_.batch_size;
  const std::int64_t rows = std::min(options_.batch_size, taken_ - first);
  buffer_.resize(rows, length);
  Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.first_row = first;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Window w = window(first + row);
    buffer_.fill(row, tokens_, w.start);
    if (options_.masking) buffer_.mask(row, *options_.masking, kEvaluationStep, first + row);
    buffer_.ignore(row, w.ignored);
  }
  batch.inputs = buffer_.inputs();
  batch.targets = buffer_.targets();
  batch.starts = buffer_.starts();
  batch.target_tokens = buffer_.count_targets(rows);
  for (std::int64_t j = 0; j < rows * length; ++j) {
    if (options_.masking || batch.targets[j] == kIgnore) continue;
    const std::int32_t before = batch.inputs[j], target = batch.targets[j];
    batch.target_bytes += static_cast<std::int64_t>(tokenizer_->between(before, target).size() +
                                                    tokenizer_->token_bytes(target).size());
  }
  return batch;
}

}  // namespace quern
