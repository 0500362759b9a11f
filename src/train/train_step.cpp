#include <cmath>
#include <limits>
#include <string>

#include "quern/base/profile.hpp"
#include "quern/kernels/reduce.hpp"
#include "quern/train/optimizer.hpp"
#include "quern/train/schedule.hpp"
#include "quern/train/trainer.hpp"

namespace quern {
namespace {

/// What a step works on.
struct Work {
  Model& model;
  Workspace& workspace;
  TrainBatches& batches;
  const Config& config;
  std::int64_t step, position;  // from 1; in the order of batches, from 0
};

Batch batch_of(const Work& work, std::int64_t i) {
  const ScopedSlice slice(Phase::data, "batch");
  return work.batches.batch(work.position, i);
}

/// The loss and the gradient over all micro-batches; NaN for all three numbers when no target counts.
void differentiate(const Work& work, StepResult& result) {
  StepPhases& phases = result.phases;
  Stopwatch watch;
  const RunConfig& run = work.config.run;
  const std::int64_t parts = run.grad_accumulation;
  Batch batch;
  for (std::int64_t i = 0; i < parts; ++i) {
    batch = batch_of(work, i);
    result.tokens += batch.target_tokens;
  }
  phases.data += watch.lap_ms();
  if (result.tokens == 0) {
    result.loss = result.smoothed = result.gradient_norm = std::numeric_limits<double>::quiet_NaN();
    return;
  }

  ParamStore& parameters = work.model.parameters();
  parameters.begin_step();
  Loss loss;
  for (std::int64_t i = 0; i < parts; ++i) {
    if (parts > 1) batch = batch_of(work, i);
    phases.data += watch.lap_ms();
    Tape tape(work.workspace, Mode::train,
              {run.seed, static_cast<std::uint32_t>(work.step), static_cast<std::uint64_t>(batch.first_row)},
              run.recompute);
    const Loss part =
        work.model.loss(tape, input_of(batch), targets_of(batch), static_cast<double>(result.tokens),
                        static_cast<float>(work.config.optim.label_smoothing));
    phases.forward += watch.lap_ms();
    tape.backward();
    phases.backward += watch.lap_ms();
    loss.nll += part.nll;
    loss.smoothed += part.smoothed;
  }
  parameters.complete_gradients();
  result.loss = loss.nll / static_cast<double>(result.tokens);
  result.smoothed = loss.smoothed / static_cast<double>(result.tokens);
  result.gradient_norm = gradient_norm(parameters);
  phases.optimizer += watch.lap_ms();
}

std::string place_of(const Node& node) {
  return node.name + (node.module.empty() ? "" : " in " + std::string(node.module));
}

/// The first tensor of the step that is not finite. The step is done once more, the same in every bit, and
/// each operation's numbers are looked at.
std::string first_bad_tensor(const Work& work) {
  ParamStore& parameters = work.model.parameters();
  if (const std::string name = first_nonfinite_value(parameters); !name.empty()) return name + " (value)";
  std::string found;
  const auto before = work.workspace.inspect;
  work.workspace.inspect = [&](const Node& node, Phase phase) {
    if (before) before(node, phase);
    if (!found.empty()) return;
    for (int i = 0; phase == Phase::forward && i < node.output_count; ++i)
      if (const Tensor& value = node.outputs[i]->value; value && !all_finite(value))
        found = "the output of " + place_of(node);
    for (int i = 0; phase == Phase::backward && i < node.input_count; ++i)
      if (const Slot& input = *node.inputs[i]; input.written && input.grad && !all_finite(input.grad))
        found = "a gradient of " + place_of(node);
  };
  StepResult again;
  differentiate(work, again);
  work.workspace.inspect = before;
  if (!found.empty()) return found;
  if (const std::string name = first_nonfinite_gradient(parameters); !name.empty())
    return name + " (gradient)";
  return "none, a sum overflows";
}

/// What of a step is not finite; empty when nothing is. The moments hold squares of the clipped gradient.
std::string nonfinite(const StepResult& result, double clip) {
  if (!std::isfinite(result.loss)) return "the loss is not finite";
  const double norm = result.gradient_norm * clip_factor(result.gradient_norm, clip);
  if (!std::isfinite(static_cast<float>(norm * norm)))
    return std::isfinite(result.gradient_norm) ? "the gradient's square is not finite"
                                               : "the gradient is not finite";
  return {};
}

}  // namespace

StepResult train_step(Model& model, Workspace& workspace, TrainBatches& batches, const Config& config,
                      std::int64_t step, std::int64_t skipped) {
  const ScopedSlice slice(Phase::step, "step");
  const Work work{model, workspace, batches, config, step, step - 1 + skipped};
  StepResult result;
  result.learning_rate = learning_rate(step, config.optim, config.schedule);
  differentiate(work, result);
  if (result.tokens == 0) return result;
  result.nonfinite = nonfinite(result, config.optim.grad_clip);
  if (!result.nonfinite.empty()) {
    result.nonfinite +=
        "; first bad tensor: " + first_bad_tensor(work) + "; the batch: " + batches.describe(work.position);
    return result;
  }
  Stopwatch watch;
  result.update_ratio =
      update(model.parameters(), config.optim, result.learning_rate,
             clip_factor(result.gradient_norm, config.optim.grad_clip), step, workspace.pool);
  result.phases.optimizer += watch.lap_ms();
  return result;
}

}  // namespace quern
