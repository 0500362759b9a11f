#include "quern/train/evaluate.hpp"

#include <cmath>
#include <numbers>

namespace quern {

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte() const {
  return loss * static_cast<double>(tokens) / (std::numbers::ln2 * static_cast<double>(bytes));
}

std::optional<EvalWindows> validation_windows(const Config& config, const Corpus& corpus) {
  if (corpus.val().size() == 0) return std::nullopt;
  return EvalWindows(
      corpus.val(), corpus.tokenizer,
      {config.model.context_length, config.data.eval_stride, config.run.batch_size, config.run.eval_batches});
}

std::optional<Evaluation> evaluate(const Transformer& model, Workspace& workspace, EvalWindows& windows,
                                   const std::function<bool()>& cancelled) {
  Evaluation total;
  double nll = 0;
  for (std::int64_t i = 0; i < windows.batches(); ++i) {
    if (cancelled()) return std::nullopt;
    const Batch batch = windows.batch(i);
    Tape tape(workspace, Mode::infer);
    nll += model.loss(tape, {batch.inputs, batch.rows, batch.length, batch.starts}, batch.targets, 1, 0).nll;
    total.tokens += batch.target_tokens;
    total.bytes += batch.target_bytes;
  }
  total.loss = nll / static_cast<double>(total.tokens);
  return total;
}

}  // namespace quern
