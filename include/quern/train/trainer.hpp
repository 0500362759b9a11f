// The training loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quern/data/dataset.hpp"
#include "quern/nn/model.hpp"
#include "quern/train/batches.hpp"
#include "quern/train/checkpoint_state.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/config.hpp"
#include "quern/train/spikes.hpp"
#include "quern/train/tracer.hpp"
#include "quern/watch/events.hpp"
#include "quern/watch/jsonl.hpp"

namespace quern {

/// What a step did. Without a target there is no loss and no gradient: the first three are NaN.
struct StepResult {
  double loss = 0, smoothed = 0;  // nats per target token
  double gradient_norm = 0;       // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  // targets that counted
  StepPhases phases;
  std::optional<double> update_ratio = {};  // of an update: its L2 norm over that of the weights
  std::string nonfinite = {};  // empty: the weights were updated, or no target counted. Else nothing was
                               // updated; what is not finite, the first bad tensor, and the batch
};

/// One update of `model` on step `step` (from 1): all micro-batches, one normaliser (the step's target
/// tokens), clipping of the accumulated gradient, AdamW. A step without a single target changes nothing, nor
/// does one whose loss or clipped gradient is not finite, or has a square that is not: `nonfinite` then says
/// more. A NaN or an infinity anywhere in forward or backward reaches one of the two. (A weight that only the
/// update itself makes infinite is found before it is saved, and by the next step that it takes part in.)
/// The batches are those of position step - 1 + `skipped` in their order.
StepResult train_step(Model& model, Workspace& workspace, TrainBatches& batches, const Config& config,
                      std::int64_t step, std::int64_t skipped = 0);

/// Trains a run from where `model` stands to its last step.
class Trainer {
 public:
  Trainer(const Config& config, const Dataset& data, Model& model, CheckpointStore& store,
          JsonlWriter& metrics, Observers& observers, Tracer& tracer);

  /// Takes the progress from a checkpoint; the model has its weights and moments already.
  void restore(const LoadedCheckpoint& checkpoint);

  /// Returns 0, or 128 + the signal that stopped it. Errors leave after on_end.
  int run();

  const TrainProgress& progress() const { return progress_; }

 private:
  void loop();
  void step();
  void count(const StepResult& result, double ms);
  void nonfinite_step(const StepResult& result, double ms);
  bool weights_finite();
  void go_back_or_stop(AnomalyEvent event);
  void roll_back(AnomalyEvent event);
  void begin_again();
  void look_for_spike(const StepResult& result);
  void save(bool required = false);
  bool goes_on_without(const Error& error);
  void announce_checkpoint(double cost);
  void evaluate_now();
  bool save_due() const;
  bool evaluation_due() const;
  void sample_now();
  void end(const char* status);
  void tell_distributions();
  void tell(const std::string& text);
  CheckpointState state();
  double seconds() const;  // since this object was made

  const Config& config_;
  const Dataset& data_;
  Model& model_;
  CheckpointStore& store_;
  JsonlWriter& metrics_;
  Observers& observers_;
  Tracer& tracer_;
  Workspace workspace_;
  TrainBatches batches_;
  std::optional<EvalBatches> validation_;
  TrainProgress progress_;
  SpikeWatch spikes_;
  std::optional<std::int64_t> begin_bytes_;  // of the metrics before step 0; empty when resumed
  std::vector<AnomalyEvent> undone_{};       // the rollbacks since the last save
  std::int64_t finite_step_ = 0;             // the latest whose weights were looked at, and finite
  std::int64_t saved_ = -1;                  // step of the last save
  std::int64_t not_saved_ = -1;              // step of the last save that failed
  std::int64_t failed_saves_ = 0;            // in a row
  double saved_at_ = 0;                      // seconds()
  double save_seconds_;                      // what a save costs, as far as known
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace quern
