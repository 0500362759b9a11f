// The training loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "quern/data/dataset.hpp"
#include "quern/nn/model.hpp"
#include "quern/train/batches.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/config.hpp"
#include "quern/train/tracer.hpp"
#include "quern/watch/events.hpp"
#include "quern/watch/jsonl.hpp"

namespace quern {

/// What a step did.
struct StepResult {
  double loss = 0, smoothed = 0;  // nats per target token
  double gradient_norm = 0;       // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  // targets that counted
  StepPhases phases;
};

/// One update of `model` on step `step` (from 1): all micro-batches, one normaliser (the step's target
/// tokens), clipping of the accumulated gradient, AdamW. A step without a single target changes nothing.
/// Throws Error(diverged) before the update when the loss or the gradient is not finite.
StepResult train_step(Model& model, Workspace& workspace, TrainBatches& batches, const Config& config,
                      std::int64_t step);

/// Trains a run from where `model` stands to its last step.
class Trainer {
 public:
  struct Progress {  // what a checkpoint keeps of the loop
    std::int64_t step = 0, tokens = 0, evaluated = -1;
    std::optional<double> best_loss;
    std::int64_t best_step = 0;
  };

  Trainer(const Config& config, const Dataset& data, Model& model, CheckpointStore& store,
          JsonlWriter& metrics, Observers& observers, Tracer& tracer);

  /// Takes weights, moments and progress from a checkpoint.
  void restore(const LoadedCheckpoint& checkpoint);

  /// Returns 0, or 128 + the signal that stopped it. Errors leave after on_end.
  int run();

  const Progress& progress() const { return progress_; }

 private:
  void loop();
  void step();
  void save();
  void announce_checkpoint(double cost);
  void evaluate_now();
  bool save_due() const;
  bool evaluation_due() const;
  void sample_now();
  void end(const char* status);
  void tell_distributions();
  void tell(const std::string& text);
  nlohmann::json state();
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
  Progress progress_;
  std::int64_t saved_ = -1;  // step of the last save
  double saved_at_ = 0;      // seconds()
  double save_seconds_;      // what a save costs, as far as known
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace quern
