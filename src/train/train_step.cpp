#include <cmath>
#include <string>

#include "quern/base/profile.hpp"
#include "quern/train/optimizer.hpp"
#include "quern/train/schedule.hpp"
#include "quern/train/trainer.hpp"

namespace quern {
namespace {

/// Stops before the update when something is not finite, and names it.
void require_finite(Model& model, const StepResult& result, const OptimConfig& optim, std::int64_t step) {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  const std::string culprit = first_nonfinite_parameter(model.parameters());
  throw Error(
      ErrorKind::diverged,
      "step " + std::to_string(step) + ": the " + (std::isfinite(result.loss) ? "gradient" : "loss") +
          " is not finite; first bad tensor: " + (culprit.empty() ? "none, the sum overflows" : culprit),
      std::string("nothing was updated and earlier checkpoints are intact; try a lower ") +
          (optim.optimizer == OptimizerKind::muon ? "optim.muon_learning_rate or " : "") +
          "optim.learning_rate, a longer schedule.warmup_steps or a smaller optim.grad_clip");
}

Batch batch_of(TrainBatches& batches, std::int64_t step, std::int64_t i) {
  const ScopedSlice slice(Phase::data, "batch");
  return batches.batch(step - 1, i);
}

}  // namespace

StepResult train_step(Model& model, Workspace& workspace, TrainBatches& batches, const Config& config,
                      std::int64_t step) {
  const ScopedSlice slice(Phase::step, "step");
  StepResult result;
  StepPhases& phases = result.phases;
  Stopwatch watch;
  result.learning_rate = learning_rate(step, config.optim, config.schedule);
  const std::int64_t parts = config.run.grad_accumulation;
  Batch batch;
  for (std::int64_t i = 0; i < parts; ++i) {
    batch = batch_of(batches, step, i);
    result.tokens += batch.target_tokens;
  }
  phases.data += watch.lap_ms();
  if (result.tokens == 0) return result;

  model.parameters().begin_step();
  Loss loss;
  for (std::int64_t i = 0; i < parts; ++i) {
    if (parts > 1) batch = batch_of(batches, step, i);
    phases.data += watch.lap_ms();
    Tape tape(
        workspace, Mode::train,
        {config.run.seed, static_cast<std::uint32_t>(step), static_cast<std::uint64_t>(batch.first_row)},
        config.run.recompute);
    const Loss part = model.loss(tape, input_of(batch), targets_of(batch), static_cast<double>(result.tokens),
                                 static_cast<float>(config.optim.label_smoothing));
    phases.forward += watch.lap_ms();
    tape.backward();
    phases.backward += watch.lap_ms();
    loss.nll += part.nll;
    loss.smoothed += part.smoothed;
  }
  model.parameters().complete_gradients();
  result.loss = loss.nll / static_cast<double>(result.tokens);
  result.smoothed = loss.smoothed / static_cast<double>(result.tokens);
  result.gradient_norm = gradient_norm(model.parameters());
  require_finite(model, result, config.optim, step);
  update(model.parameters(), config.optim, result.learning_rate,
         clip_factor(result.gradient_norm, config.optim.grad_clip), step, workspace.pool);
  phases.optimizer = watch.lap_ms();
  return result;
}

}  // namespace quern
