// What training tells whoever watches: plain structs and the interface that takes them. The trainer knows an
// Observers list and nothing else; an observer knows these structs and nothing of the trainer.
//
// The order of a process's calls: on_start (a new run) or on_resume (a continued one), then any number of
// on_step, on_eval, on_checkpoint, on_sample, on_distribution, on_anomaly and on_note, then on_end. Steps
// count from 1; an evaluation or checkpoint of step s speaks of the weights after s updates, so step 0 is the
// initial model.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/watch/histogram.hpp"

namespace quern {

/// A run as it begins: what it trains, on what, for how long, on which machine.
struct StartEvent {
  std::int64_t step = 0;             // steps done before: 0, or the checkpoint's step in a ResumeEvent
  std::int64_t max_steps = 0;        // the run ends after this step
  std::int64_t parameters = 0;       // trainable numbers, a tied matrix counted once
  std::int64_t train_tokens = 0;     // tokens of the training split
  std::int64_t val_tokens = 0;       // tokens of the validation split; 0: no validation
  std::int64_t vocab_size = 0;       // tokens of the vocabulary
  std::int64_t tokens_per_step = 0;  // target tokens of a full step, over micro-batches and ranks
  /// What a run learns from that is no text: then the three above that count tokens are 0.
  struct ExampleCounts {
    std::int64_t train = 0;     // examples to learn from; 0: without end
    std::int64_t val = 0;       // examples of an evaluation; 0: no validation
    std::int64_t per_step = 0;  // of a full step; 0: it varies
  };
  std::optional<ExampleCounts> examples;
  std::string name;                     // run.name
  std::string run_dir;                  // path as the user may type it
  std::optional<double> entropy_floor;  // nats per token that no model can pass on fresh text, when known
  int threads = 1;                      // that compute
  std::string isa;                      // level of our kernels, such as "x86-64-v4"
  std::string precision = "f32";        // "f32" or "bf16"
  std::string data_fingerprint;         // of the bytes that it learns from, or of how they are drawn
};

/// A run that goes on from a checkpoint; `start` describes the run as it now stands, start.step is that
/// checkpoint's.
struct ResumeEvent {
  StartEvent start;
  std::string checkpoint;  // path relative to the run's directory
};

/// Where a step's time went, in milliseconds. The head's gradient is made with its loss and counts as
/// forward.
struct StepPhases {
  double data = 0;       // making the batches
  double forward = 0;    // over all micro-batches
  double backward = 0;   // over all micro-batches
  double optimizer = 0;  // the gradient's norm and the update
};

/// One update. Without a target that counts there is none, nor a loss or a gradient: loss, smoothed loss and
/// norm are NaN.
struct StepEvent {
  std::int64_t step = 0;    // from 1
  std::int64_t tokens = 0;  // target tokens since step 0, this step included
  double loss = 0;          // nats per target token of this batch, before the update, not smoothed
  std::optional<double> smoothed_loss;  // the objective, when label smoothing is on
  double lr = 0;                        // learning rate of this update
  double grad_norm = 0;                 // global L2 norm before clipping
  double ms = 0;                        // wall time of the step, without evaluation and checkpoints
  double tokens_per_second = 0;         // this step's target tokens over `ms`
  std::optional<StepPhases> phases = std::nullopt;  // of `ms`; files of older programs do not have them
  std::int64_t rss = 0;  // bytes of the process in physical memory after it; 0: not known
  std::optional<double> update_ratio =
      std::nullopt;  // L2 norm of the weights' change over that of the weights

  /// Whether no target counted, so that a NaN is a number that is missing and not one that went wrong.
  bool without_target() const { return tokens_per_second == 0 && std::isnan(loss); }
};

/// A number that tells how well a task is done, such as accuracy.
struct TaskMetric {
  std::string name;
  double value = 0;
};

/// One evaluation.
struct EvalEvent {
  std::int64_t step = 0;
  std::string split = "val";
  double loss = 0;                       // nats per target token
  std::int64_t tokens = 0;               // target tokens counted
  double seconds = 0;                    // wall time
  bool best = false;                     // lower than every evaluation of this split before it
  std::vector<TaskMetric> metrics = {};  // the task's
};

/// A checkpoint that is durable.
struct CheckpointEvent {
  std::int64_t step = 0;
  std::string path;    // relative to the run's directory: "ckpt/step-000000020"
  double seconds = 0;  // what saving cost
};

/// A text that the model wrote while it trained. It comes from data: whoever shows it makes it harmless.
struct SampleEvent {
  std::int64_t step = 0;
  std::string prompt, text;  // what it was given, and how it went on
};

/// How the numbers of one parameter lie after a step.
struct DistributionEvent {
  std::int64_t step = 0;
  std::string tensor;
  Histogram values, gradients;  // after the update; of the step, before clipping
};

/// A step whose numbers are not what they should be.
struct AnomalyEvent {
  std::int64_t step = 0;
  std::string kind;                   // "nonfinite" or "spike"
  std::string action;                 // "none", "stop", "skip" or "rollback"
  double loss = 0, grad_norm = 0;     // of that step
  std::optional<double> z_score;      // of a spike: deviations from the mean of the steps before
  std::optional<std::int64_t> after;  // of a rollback: the step after which the run goes on
  std::string text;                   // for a person: what was bad, which examples the step had
};

/// Something a person should read while the run goes on. `text` may hold several lines and may come from
/// data; whoever shows it makes it harmless for a terminal.
struct NoteEvent {
  std::int64_t step = 0;
  std::string text;
  bool warning = false;  // shown even when the user asked for quiet
};

/// The end of a process's part of a run.
struct EndEvent {
  std::int64_t step = 0;             // steps done
  std::string status = "completed";  // "completed", "interrupted", "diverged" or "failed"
  double seconds = 0;                // wall time of this process from its start or resume
  std::optional<double> best_val;    // lowest validation loss of the run
  std::int64_t best_step = 0;        // its step
};

/// Takes the events of a run. Every function does nothing unless overridden.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void on_start(const StartEvent&) {}
  virtual void on_resume(const ResumeEvent&) {}
  virtual void on_step(const StepEvent&) {}
  virtual void on_eval(const EvalEvent&) {}
  virtual void on_checkpoint(const CheckpointEvent&) {}
  virtual void on_sample(const SampleEvent&) {}
  virtual void on_distribution(const DistributionEvent&) {}
  virtual void on_anomaly(const AnomalyEvent&) {}
  virtual void on_note(const NoteEvent&) {}
  virtual void on_end(const EndEvent&) {}
};

/// Forwards every event to each observer in the order in which they were added. An observer that throws is
/// dropped, the others are told so with on_note, and training goes on: nobody who watches can break a run.
/// (That the process has no memory left is passed on: std::bad_alloc.)
class Observers final : public Observer {
 public:
  /// Adds an observer; the caller keeps it alive as long as this list.
  void add(Observer& observer) { list_.push_back(&observer); }
  /// The same, told before all others.
  void add_first(Observer& observer) { list_.insert(list_.begin(), &observer); }
  /// Adds an observer that this list owns.
  void add(std::unique_ptr<Observer> observer);

  void on_start(const StartEvent& event) override;
  void on_resume(const ResumeEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_sample(const SampleEvent& event) override;
  void on_distribution(const DistributionEvent& event) override;
  void on_anomaly(const AnomalyEvent& event) override;
  void on_note(const NoteEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  template <class Event>
  void forward(void (Observer::*function)(const Event&), const Event& event, std::int64_t step);

  std::vector<Observer*> list_;
  std::vector<std::unique_ptr<Observer>> owned_;
};

}  // namespace quern
