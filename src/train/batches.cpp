#include "quern/train/batches.hpp"

#include <algorithm>
#include <vector>

#include "quern/base/suggest.hpp"
#include "quern/train/objective.hpp"

namespace quern {
namespace {

std::variant<WindowSampler, ExampleSampler> sampler(const Config& config, const Dataset& data) {
  const RunConfig& run = config.run;
  const std::int64_t context = config.model.context_length;
  if (data.corpus)
    return WindowSampler(data.corpus->train(), context, config.data.order, run.seed,
                         run.batch_size * run.grad_accumulation, masking_of(config, data.tokenizer));
  return ExampleSampler(*data.examples, {config.data.order, run.seed, run.batch_size, run.batch_tokens,
                                         run.grad_accumulation, context});
}

}  // namespace

TrainBatches::TrainBatches(const Config& config, const Dataset& data)
    : of_(sampler(config, data)), rows_(config.run.batch_size) {}

Batch TrainBatches::batch(std::int64_t step, std::int64_t i) {
  if (auto* windows = std::get_if<WindowSampler>(&of_)) return windows->batch(step, i * rows_, rows_);
  return std::get<ExampleSampler>(of_).batch(step, i);
}

std::string TrainBatches::describe(std::int64_t step) {
  constexpr std::size_t most = 64;
  std::vector<std::int64_t> numbers;
  const auto* windows = std::get_if<WindowSampler>(&of_);
  if (windows != nullptr) {
    for (std::int64_t row = 0; row < windows->rows_per_step(); ++row)
      numbers.push_back(windows->start(step, row));
  } else {
    numbers = std::get<ExampleSampler>(of_).numbers(step);
  }
  const std::size_t others = numbers.size() - std::min(numbers.size(), most);
  numbers.resize(numbers.size() - others);
  const std::string list = listed(numbers) + (others > 0 ? " and " + std::to_string(others) + " more" : "");
  return windows != nullptr ? "the windows that begin at " + list + " of the training tokens"
                            : "the training examples " + list;
}

std::int64_t EvalBatches::rows() const {
  if (const auto* windows = std::get_if<EvalWindows>(&of_)) return windows->windows();
  return std::get<ExampleEvaluation>(of_).rows();
}

std::int64_t EvalBatches::batches() const {
  return std::visit([](const auto& of) { return of.batches(); }, of_);
}

Batch EvalBatches::batch(std::int64_t i) {
  return std::visit([i](auto& of) { return of.batch(i); }, of_);
}

EvalWindows evaluation_windows(const Config& config, const Dataset& data, Split split) {
  return EvalWindows(split == Split::val ? data.corpus->val() : data.corpus->train(), data.tokenizer,
                     {config.model.context_length, config.data.eval_stride, config.run.batch_size,
                      config.run.eval_batches, masking_of(config, data.tokenizer)});
}

std::optional<EvalBatches> evaluation_batches(const Config& config, const Dataset& data, Split split) {
  if (data.size(split) == 0) return std::nullopt;
  const RunConfig& run = config.run;
  if (!data.corpus)
    return EvalBatches(ExampleEvaluation(*data.examples, split, run.batch_size, run.eval_batches,
                                         config.model.context_length));
  return EvalBatches(evaluation_windows(config, data, split));
}

Input input_of(const Batch& batch) {
  Input input;
  input.tokens = {batch.inputs, batch.rows, batch.length, batch.starts, batch.lengths, batch.patches};
  if (batch.source != nullptr)
    input.source = {batch.source, batch.rows, batch.source_length, nullptr, batch.source_lengths, nullptr};
  return input;
}

Targets targets_of(const Batch& batch) {
  Targets targets;
  targets.classes = batch.targets;
  targets.values = batch.values;
  return targets;
}

}  // namespace quern
