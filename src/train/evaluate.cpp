#include "quern/train/evaluate.hpp"

#include <cmath>
#include <numbers>

#include "quern/base/check.hpp"
#include "quern/data/scores.hpp"
#include "quern/train/objective.hpp"

namespace quern {
namespace {

/// Which metrics a task has, and their counts.
class Measures {
 public:
  explicit Measures(const Config& config)
      : head_(head_of(config)),
        none_(head_ == HeadKind::tokens && config.data.task == TaskKind::text && !is_masked(config)),
        whole_(answers_whole(config)) {}

  /// Room for the predictions on a batch.
  void prepare(const Batch& batch, Targets& targets) {
    if (none_) return;
    const std::int64_t each = batch.values == nullptr && head_ != HeadKind::label ? batch.length : 1;
    classes_.resize(static_cast<std::size_t>(batch.rows * each));
    values_.resize(static_cast<std::size_t>(batch.rows));
    targets.predictions = classes_.data();
    targets.predicted_values = values_.data();
  }

  void count(const Batch& batch) {
    if (none_) return;
    if (batch.values != nullptr) {
      for (std::int64_t r = 0; r < batch.rows; ++r)
        scores_.add_value(static_cast<double>(batch.values[r]),
                          static_cast<double>(values_[static_cast<std::size_t>(r)]));
      return;
    }
    const auto each = static_cast<std::int64_t>(classes_.size()) / batch.rows;
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      bool right = true;
      for (std::int64_t i = r * each; i < (r + 1) * each; ++i) {
        if (batch.targets[i] == kIgnore) continue;
        const std::int32_t told = classes_[static_cast<std::size_t>(i)];
        scores_.add_class(batch.targets[i], told);
        right &= told == batch.targets[i];
      }
      if (whole_) answers_.add_answer(right);
    }
  }

  std::vector<TaskMetric> metrics() const {
    if (none_ || scores_.count() == 0) return {};
    if (head_ == HeadKind::value) {
      std::vector<TaskMetric> found = {{"mse", scores_.mean_squared_error()}};
      if (const auto r2 = scores_.r_squared()) found.push_back({"r2", *r2});
      return found;
    }
    std::vector<TaskMetric> found = {{"accuracy", scores_.accuracy()}};
    if (head_ != HeadKind::tokens) found.push_back({"macro_f1", scores_.macro_f1()});
    if (whole_) found.push_back({"exact_match", answers_.accuracy()});
    return found;
  }

 private:
  HeadKind head_;
  bool none_, whole_;
  std::vector<std::int32_t> classes_;
  std::vector<float> values_;
  Scores scores_, answers_;
};

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte() const {
  return loss * static_cast<double>(tokens) / (std::numbers::ln2 * static_cast<double>(bytes));
}

std::optional<Evaluation> evaluate(const Config& config, const Model& model, Workspace& workspace,
                                   EvalBatches& batches, const std::function<bool()>& cancelled) {
  Evaluation total;
  Measures measures(config);
  double nll = 0;
  for (std::int64_t i = 0; i < batches.batches(); ++i) {
    if (cancelled()) return std::nullopt;
    const Batch batch = batches.batch(i);
    Targets targets = targets_of(batch);
    measures.prepare(batch, targets);
    Tape tape(workspace, Mode::infer);
    nll += model.loss(tape, input_of(batch), targets, 1, 0).nll;
    measures.count(batch);
    total.tokens += batch.target_tokens;
    total.bytes += batch.target_bytes;
  }
  QUERN_CHECK(total.tokens > 0);
  total.loss = nll / static_cast<double>(total.tokens);
  total.metrics = measures.metrics();
  return total;
}

}  // namespace quern
