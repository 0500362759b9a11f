#include "quern/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "quern/base/cpu.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/process.hpp"
#include "quern/base/profile.hpp"
#include "quern/infer/generate.hpp"
#include "quern/train/evaluate.hpp"
#include "quern/train/model_tensors.hpp"
#include "quern/train/signals.hpp"

namespace quern {
namespace {

/// A guess at what the first save costs: a modest disk's rate, and a few fsyncs.
double guessed_save_seconds(const ParamStore& parameters) {
  return 0.02 + static_cast<double>(parameters.slab_size()) * 12 / 200e6;
}

bool every(std::int64_t interval, std::int64_t step) {
  return interval > 0 && step > 0 && step % interval == 0;
}

}  // namespace

Trainer::Trainer(const Config& config, const Dataset& data, Model& model, CheckpointStore& store,
                 JsonlWriter& metrics, Observers& observers, Tracer& tracer)
    : config_(config),
      data_(data),
      model_(model),
      store_(store),
      metrics_(metrics),
      observers_(observers),
      tracer_(tracer),
      batches_(config, data),
      validation_(evaluation_batches(config, data)),
      save_seconds_(guessed_save_seconds(model.parameters())) {
  if (config.run.batch_tokens > 0) workspace_.pool.give_back_spare();  // each batch has a shape of its own
}

double Trainer::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

int Trainer::run() {
  const SignalGuard signals;
  try {
    if (saved_ < 0) begin_bytes_ = metrics_.offset();
    if (saved_ >= 0) announce_checkpoint(0);  // its line came after the offset that it recorded
    loop();
  } catch (const Error& error) {
    end(error.kind == ErrorKind::diverged ? "diverged" : "failed");
    throw;
  } catch (...) {
    end("failed");
    throw;
  }
  const int signal = stop_signal();
  const bool evaluated = !validation_ || progress_.evaluated == progress_.step;
  end(progress_.step < config_.run.max_steps || !evaluated ? "interrupted" : "completed");
  return signal == 0 ? 0 : 128 + signal;
}

void Trainer::loop() {
  for (;;) {
    const bool stopping = stop_signal() != 0;
    const bool last = progress_.step >= config_.run.max_steps;
    const bool saves = last || stopping || save_due(), evaluates = !stopping && (last || evaluation_due());
    if ((saves || evaluates) && !weights_finite()) continue;
    if (saves) save(last || stopping);
    if (evaluates) evaluate_now();
    if (!stopping && every(config_.watch.sample_interval, progress_.step)) sample_now();
    if (last || stopping) return;
    if (stop_signal() == 0) step();  // else it came during the evaluation: save first
  }
}

void Trainer::step() {
  tell(tracer_.before_step(progress_.step + 1));
  Stopwatch watch;
  const StepResult result =
      train_step(model_, workspace_, batches_, config_, progress_.step + 1, progress_.skipped);
  const double ms = watch.lap_ms();
  if (!result.nonfinite.empty()) return nonfinite_step(result, ms);
  progress_.skips_in_a_row = 0;
  count(result, ms);
  if (progress_.step >= progress_.bad_step) progress_.rollbacks = 0;
  look_for_spike(result);
  if (every(config_.watch.histogram_interval, progress_.step)) tell_distributions();
}

/// The step is done.
void Trainer::count(const StepResult& result, double ms) {
  progress_.step++;
  progress_.tokens += result.tokens;
  StepEvent event;
  event.step = progress_.step;
  event.tokens = progress_.tokens;
  event.loss = result.loss;
  if (config_.optim.label_smoothing > 0) event.smoothed_loss = result.smoothed;
  event.lr = result.learning_rate;
  event.grad_norm = result.gradient_norm;
  event.ms = ms;
  event.tokens_per_second = static_cast<double>(result.tokens) / (ms / 1000);
  event.phases = result.phases;
  event.rss = resident_bytes();
  event.update_ratio = result.update_ratio;
  observers_.on_step(event);
}

bool Trainer::save_due() const {
  if (take_save_request()) return true;
  if (config_.run.checkpoint_interval > 0) return every(config_.run.checkpoint_interval, progress_.step);
  // At most 1 % of the time: a save once a hundred times what it costs.
  return progress_.step > 0 && seconds() - saved_at_ >= 100 * save_seconds_;
}

bool Trainer::evaluation_due() const {
  return progress_.step == 0 || every(config_.run.eval_interval, progress_.step);
}

/// Without a `required` save the run may go on: see run.on_checkpoint_error.
void Trainer::save(bool required) {
  if (saved_ == progress_.step || (!required && not_saved_ == progress_.step)) return;
  const ScopedSlice slice(Phase::checkpoint, "checkpoint");
  const double begin = seconds();
  try {
    store_.save({progress_.step, model_entries(model_.parameters()), optim_entries(model_.parameters()),
                 state().to_json()});
  } catch (const Error& error) {
    if (required || !goes_on_without(error)) throw;
    return;
  }
  saved_ = progress_.step;
  failed_saves_ = 0;
  undone_.clear();
  saved_at_ = seconds();
  save_seconds_ = saved_at_ - begin;
  announce_checkpoint(save_seconds_);
  store_.prune(config_.run.keep_checkpoints,
               progress_.best_loss ? std::optional(progress_.best_step) : std::nullopt);
}

/// Whether a save that failed is only worth a warning.
bool Trainer::goes_on_without(const Error& error) {
  constexpr std::int64_t most = 3;
  if (config_.run.on_checkpoint_error == OnCheckpointError::stop || error.kind != ErrorKind::io ||
      failed_saves_ == most)
    return false;
  ++failed_saves_;
  not_saved_ = progress_.step;
  saved_at_ = seconds();
  observers_.on_note({progress_.step,
                      "step " + std::to_string(progress_.step) + " was not saved, " +
                          std::to_string(failed_saves_) + " of at most " + std::to_string(most) +
                          " times in a row: " + one_line(error),
                      true});
  return true;
}

void Trainer::announce_checkpoint(double cost) {
  observers_.on_checkpoint({progress_.step, "ckpt/" + checkpoint_name(progress_.step), cost});
}

void Trainer::evaluate_now() {
  if (!validation_ || progress_.evaluated == progress_.step) return;
  const double begin = seconds();
  const auto found = [&] {
    const ScopedSlice slice(Phase::evaluation, "evaluation");
    return evaluate(config_, model_, workspace_, *validation_, [] { return stop_signal() != 0; });
  }();
  if (!found) return;
  metrics_.check_place();  // before anybody writes a page
  progress_.evaluated = progress_.step;
  // The untrained model is where a run starts, not something to keep.
  const bool best = progress_.step > 0 && std::isfinite(found->loss) &&
                    (!progress_.best_loss || found->loss < *progress_.best_loss);
  if (best) {
    progress_.best_loss = found->loss;
    progress_.best_step = progress_.step;
  }
  observers_.on_eval(
      {progress_.step, "val", found->loss, found->tokens, seconds() - begin, best, found->metrics});
  if (best) save();  // so that the best is always a checkpoint
}

void Trainer::sample_now() {
  SampleEvent sample{progress_.step, config_.watch.sample_prompt, {}};
  GenerateOptions options;
  options.max_new_tokens = config_.watch.sample_tokens;
  options.sampler.seed = config_.run.seed;
  const auto prompt = data_.tokenizer.encode(sample.prompt, {"watch.sample_prompt", ErrorKind::config});
  generate(
      model_, data_.tokenizer, prompt, options, [&](std::string_view piece) { sample.text += piece; },
      [] { return stop_signal() != 0; });
  metrics_.check_place();  // before anybody writes a file
  observers_.on_sample(sample);
}

void Trainer::tell_distributions() {
  for (const Parameter& p : model_.parameters().all()) {
    const auto size = static_cast<std::size_t>(p.size());
    DistributionEvent event{progress_.step, p.name, histogram_of({p.slot.value.f32(), size}), {}};
    if (!p.fixed) event.gradients = histogram_of({p.slot.grad.f32(), size});
    observers_.on_distribution(event);
  }
}

void Trainer::tell(const std::string& text) {
  if (!text.empty()) observers_.on_note({progress_.step, text, false});
}

void Trainer::end(const char* status) {
  tell(tracer_.finish());
  observers_.on_end({progress_.step, status, seconds(), progress_.best_loss, progress_.best_step});
}

CheckpointState Trainer::state() {
  return {progress_,         spikes_.loss.numbers(),        spikes_.gradient_norm.numbers(), config_.run.seed,
          data_.fingerprint, data_.tokenizer.fingerprint(), std::string(name(isa())),        thread_count(),
          metrics_.sync()};
}

void Trainer::restore(const LoadedCheckpoint& checkpoint) {
  CheckpointState state = state_of(checkpoint);
  progress_ = state.progress;
  saved_ = finite_step_ = progress_.step;
  spikes_ = {RecentNumbers(std::move(state.losses)), RecentNumbers(std::move(state.gradient_norms))};
}

}  // namespace quern
