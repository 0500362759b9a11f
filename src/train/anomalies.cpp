// What a run does about steps whose numbers are not finite, or stand out.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/train/model_tensors.hpp"
#include "quern/train/optimizer.hpp"
#include "quern/train/trainer.hpp"
#include "quern/watch/format.hpp"

namespace quern {
namespace {

constexpr std::int64_t most_skips = 3, most_rollbacks = 3;  // in a row; without passing the step

std::string advice(const OptimConfig& optim) {
  return std::string("nothing was updated and earlier checkpoints are intact; try a lower ") +
         (optim.optimizer == OptimizerKind::muon ? "optim.muon_learning_rate or " : "") +
         "optim.learning_rate, a longer schedule.warmup_steps or a smaller optim.grad_clip";
}

std::string of_at_most(std::int64_t n, std::int64_t most) {
  return std::to_string(n) + " of at most " + std::to_string(most);
}

}  // namespace

void Trainer::nonfinite_step(const StepResult& result, double ms) {
  AnomalyEvent event;
  event.step = progress_.step + 1;
  event.kind = "nonfinite";
  event.loss = result.loss;
  event.grad_norm = result.gradient_norm;
  event.text = "step " + std::to_string(event.step) + ": " + result.nonfinite;
  if (config_.run.on_nonfinite != OnNonfinite::skip || progress_.skips_in_a_row >= most_skips)
    return go_back_or_stop(std::move(event));
  progress_.skips_in_a_row++;
  event.action = "skip";
  event.text += "; the step is skipped, " + of_at_most(progress_.skips_in_a_row, most_skips) + " in a row";
  count(result, ms);
  observers_.on_anomaly(event);
}

/// Whether no weight is an infinity or a NaN; else the run goes back, or stops. Nothing that is not finite is
/// ever saved. A weight that no step between has read may be older than the latest update.
bool Trainer::weights_finite() {
  const std::string name = first_nonfinite_value(model_.parameters());
  if (name.empty()) {
    finite_step_ = progress_.step;
    return true;
  }
  AnomalyEvent event;
  event.step = progress_.step;
  event.kind = "nonfinite";
  event.loss = event.grad_norm = std::numeric_limits<double>::quiet_NaN();
  event.text = "step " + std::to_string(event.step) + ": " +
               (finite_step_ == event.step - 1
                    ? "its update made a weight that is not finite"
                    : "a weight is not finite; after step " + std::to_string(finite_step_) + " all were") +
               "; first bad tensor: " + name + " (value)";
  go_back_or_stop(std::move(event));
  return false;
}

void Trainer::go_back_or_stop(AnomalyEvent event) {
  if (config_.run.on_nonfinite == OnNonfinite::rollback && progress_.rollbacks < most_rollbacks)
    return roll_back(std::move(event));
  event.action = "stop";
  if (progress_.skips_in_a_row > 0)
    event.text += "; " + std::to_string(progress_.skips_in_a_row) + " steps in a row before it were skipped";
  if (progress_.rollbacks > 0)
    event.text += "; the run has gone back " + std::to_string(progress_.rollbacks) +
                  " times without passing step " + std::to_string(progress_.bad_step);
  observers_.on_anomaly(event);
  throw Error(ErrorKind::diverged, event.text, advice(config_.optim));
}

/// Takes the run back to its newest intact checkpoint, or to its begin when there is none, and goes on with
/// the batches behind those of the bad step. What the metrics say of the steps that are undone is cut away.
void Trainer::roll_back(AnomalyEvent event) {
  const TrainProgress before = progress_;
  metrics_.check();  // before anything of the run is read or deleted
  auto found = store_.find_latest();
  for (const std::string& warning : found.warnings) observers_.on_note({progress_.step, warning, true});
  if (found.checkpoint) {
    require_finite(*found.checkpoint);
    const MetricsCut cut =
        metrics_.cut_of(state_of(*found.checkpoint).metrics_bytes, found.checkpoint->step());
    read_model(*found.checkpoint, model_.parameters());
    read_moments(*found.checkpoint, model_.parameters());
    restore(*found.checkpoint);
    store_.discard_after(progress_.step);
    metrics_.cut(cut.bytes);
    metrics_.on_checkpoint({progress_.step, "ckpt/" + checkpoint_name(progress_.step), 0});
  } else if (begin_bytes_) {
    begin_again();
    metrics_.cut(*begin_bytes_);
  } else {
    throw Error(ErrorKind::run, event.text + "; the checkpoints to go back to are gone",
                "somebody has deleted them; start a new run");
  }
  progress_.skipped = before.skipped + event.step - progress_.step;
  progress_.bad_step = std::max(before.bad_step, event.step);
  progress_.rollbacks = before.rollbacks + 1;
  event.action = "rollback";
  event.after = progress_.step;
  event.text += "; the run goes on after step " + std::to_string(progress_.step) + " with other batches, " +
                of_at_most(progress_.rollbacks, most_rollbacks) + " without passing this step";
  for (const AnomalyEvent& earlier : undone_) metrics_.on_anomaly(earlier);
  observers_.on_anomaly(event);
  undone_.push_back(std::move(event));
}

/// Step 0.
void Trainer::begin_again() {
  ParamStore& parameters = model_.parameters();
  parameters.initialise(config_.run.seed);
  std::fill_n(parameters.first_moments(), parameters.slab_size(), 0.0F);
  std::fill_n(parameters.second_moments(), parameters.slab_size(), 0.0F);
  progress_ = {};
  spikes_ = {};
  saved_ = -1;
  finite_step_ = 0;
}

void Trainer::look_for_spike(const StepResult& result) {
  if (result.tokens == 0) return;
  const auto spike = spikes_.see(result.loss, result.gradient_norm);
  if (!spike) return;
  observers_.on_anomaly(
      {progress_.step, "spike", "none", result.loss, result.gradient_norm, spike->z_score, std::nullopt,
       "step " + std::to_string(progress_.step) + ": the " + spike->what + " is " +
           scientific(spike->value, 3) + ", " + fixed(spike->z_score, 1) + " standard deviations" +
           (spike->scale == Scale::logarithmic ? " of its logarithm" : "") + " above the mean of the " +
           std::to_string(RecentNumbers::size) + " steps before"});
}

}  // namespace quern
