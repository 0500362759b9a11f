// The whole config: sections model, data, optim, schedule, run, watch. A file in configs/ is a short
// difference from the defaults here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quern/base/fields.hpp"
#include "quern/data/config.hpp"
#include "quern/kernels/tensor.hpp"
#include "quern/nn/config.hpp"
#include "quern/watch/config.hpp"

namespace quern {

enum class OptimizerKind { adamw, muon };
enum class ScheduleKind { constant, cosine, linear, inverse_sqrt, polynomial, wsd };
enum class Precision { f32, bf16 };
/// What is done about a step whose loss or gradient is not finite.
enum class OnNonfinite { stop, skip, rollback };
/// What is done when a checkpoint cannot be written.
enum class OnCheckpointError { stop, continue_ };

constexpr auto enum_names(OptimizerKind) {
  return std::to_array<EnumName<OptimizerKind>>(
      {{OptimizerKind::adamw, "adamw"}, {OptimizerKind::muon, "muon"}});
}
constexpr auto enum_names(ScheduleKind) {
  return std::to_array<EnumName<ScheduleKind>>({{ScheduleKind::constant, "constant"},
                                                {ScheduleKind::cosine, "cosine"},
                                                {ScheduleKind::linear, "linear"},
                                                {ScheduleKind::inverse_sqrt, "inverse_sqrt"},
                                                {ScheduleKind::polynomial, "polynomial"},
                                                {ScheduleKind::wsd, "wsd"}});
}
constexpr auto enum_names(Precision) {
  return std::to_array<EnumName<Precision>>({{Precision::f32, "f32"}, {Precision::bf16, "bf16"}});
}
constexpr auto enum_names(OnNonfinite) {
  return std::to_array<EnumName<OnNonfinite>>(
      {{OnNonfinite::stop, "stop"}, {OnNonfinite::skip, "skip"}, {OnNonfinite::rollback, "rollback"}});
}
constexpr auto enum_names(OnCheckpointError) {
  return std::to_array<EnumName<OnCheckpointError>>(
      {{OnCheckpointError::stop, "stop"}, {OnCheckpointError::continue_, "continue"}});
}
constexpr auto enum_names(Recompute) {
  return std::to_array<EnumName<Recompute>>(
      {{Recompute::none, "none"}, {Recompute::block, "block"}, {Recompute::attention, "attention"}});
}
/// The element type of products and of the activations between operations.
constexpr Type type_of(Precision precision) { return precision == Precision::bf16 ? Type::bf16 : Type::f32; }

struct OptimConfig {
  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double muon_learning_rate = 0.02;
  double muon_momentum = 0.95;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double grad_clip = 1.0;
  double label_smoothing = 0;

  void fields(FieldList& f) {
    f("optimizer", optimizer,
      "adamw: Adam with decoupled weight decay; muon: orthogonalised momentum for the matrices of the "
      "blocks, adamw for embeddings, head, norms and biases.");
    f("learning_rate", learning_rate, between(0, 1e6), "Peak learning rate.");
    f("muon_learning_rate", muon_learning_rate, between(0, 1e6),
      "Muon's peak rate; the schedule scales it as it scales learning_rate.");
    f("muon_momentum", muon_momentum, half_open(0, 1), "Decay rate of Muon's momentum.");
    f("betas", betas, between(0, 0.9999999), "Decay rates of Adam's two moments.");
    f("eps", eps, between(1e-30, 1e30), "Added to the root of the second moment.");
    f("weight_decay", weight_decay, between(0, 1e6),
      "Decoupled decay of matrices and embeddings, times the rate.");
    f("grad_clip", grad_clip, between(0, 1e30), "Largest norm of the whole gradient; 0 means no clipping.");
    f("label_smoothing", label_smoothing, half_open(0, 1),
      "Share of the target spread evenly over the vocabulary (Szegedy et al. 2015).");
  }
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  std::int64_t cooldown_steps = 0;
  double min_learning_rate = 0;
  double power = 1;

  void fields(FieldList& f) {
    f("kind", kind,
      "Course of the learning rate after the warmup; wsd stays at the peak and falls linearly at the end.");
    f("warmup_steps", warmup_steps, between(0, 1e12), "Steps over which the rate rises from 0 to its peak.");
    f("decay_steps", decay_steps, between(0, 1e12), "Step at which the decay ends; 0 means run.max_steps.");
    f("cooldown_steps", cooldown_steps, between(0, 1e12),
      "wsd: the last steps before decay_steps, over which the rate falls; 0 means a fifth of decay_steps, or "
      "what warmup_steps leaves.");
    f("min_learning_rate", min_learning_rate, between(0, 1e6),
      "The rate that cosine, linear, polynomial and wsd end at.");
    f("power", power, between(0, 100), "Exponent of the polynomial decay.");
  }
};

struct RunConfig {
  std::string name = "run";
  std::int64_t max_steps = 1000;
  std::int64_t batch_size = 16;
  std::int64_t batch_tokens = 0;
  std::int64_t grad_accumulation = 1;
  Precision precision = Precision::f32;
  Recompute recompute = Recompute::none;
  std::int64_t threads = 0;
  std::uint64_t seed = 1337;
  std::int64_t eval_interval = 250;
  std::int64_t eval_batches = 0;
  std::int64_t checkpoint_interval = 0;
  std::int64_t keep_checkpoints = 3;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  OnCheckpointError on_checkpoint_error = OnCheckpointError::stop;
  std::vector<std::int64_t> profile_steps;

  void fields(FieldList& f) {
    f("name", name, "First part of the run directory's name.");
    f("max_steps", max_steps, between(0, 1e12),
      "Updates of the weights; 0 initialises, saves step 0 and ends.");
    f("batch_size", batch_size, between(1, 1048576), "Sequences of one micro-batch.");
    f("batch_tokens", batch_tokens, between(0, 1e12),
      "Above 0: examples of about one length make a micro-batch, as many as, padded, have no more tokens "
      "than this, both sides; batch_size is that of evaluations then.");
    f("grad_accumulation", grad_accumulation, between(1, 1048576), "Micro-batches of one update.");
    f("precision", precision,
      "Element type of the products and the activations; the residual stream, softmax, loss, gradients of "
      "parameters, weights and moments are f32 with either.");
    f("recompute", recompute,
      "What backward makes again instead of keeping it: whole blocks, or their attention; the same numbers, "
      "less memory, more time.");
    f("threads", threads, between(0, 4096),
      "Threads; 0 means all processors this process may use. QUERN_THREADS overrides files, --set overrides "
      "both.");
    f("seed", seed, "All randomness is a function of this number.");
    f("eval_interval", eval_interval, between(0, 1e12),
      "Steps between evaluations; 0: at the first and last step only.");
    f("eval_batches", eval_batches, between(0, 1e12),
      "Batches of an evaluation; 0 means the whole validation split.");
    f("checkpoint_interval", checkpoint_interval, between(0, 1e12),
      "Steps between checkpoints; 0: chosen so that they cost at most 1 % of the time.");
    f("keep_checkpoints", keep_checkpoints, between(2, 1e6), "Checkpoints kept, the best one beside them.");
    f("on_nonfinite", on_nonfinite,
      "When a step's loss or gradient is not finite, which nothing is updated by: stop with exit code 5; "
      "skip "
      "the step, at most 3 in a row; rollback: go on from the newest checkpoint with other batches, at most "
      "3 "
      "times without passing that step.");
    f("on_checkpoint_error", on_checkpoint_error,
      "When a checkpoint cannot be written, on a full disk for example: stop with exit code 4; continue with "
      "a "
      "warning, at most 3 times in a row, but never after the last step or on a signal.");
    f("profile_steps", profile_steps, between(1, 1e12),
      "First and last step of which trace.json tells each operation's time (a Chrome trace, for Perfetto); "
      "empty: none.");
  }
};

struct Config {
  std::string about;
  ModelConfig model;
  DataConfig data;
  OptimConfig optim;
  ScheduleConfig schedule;
  RunConfig run;
  WatchConfig watch;

  void fields(FieldList& f) {
    f("about", about, "A line for people: what this config is for.");
    f.section("model", model, "What the model is.");
    f.section("data", data, "What it learns from.");
    f.section("optim", optim, "How a gradient becomes an update.");
    f.section("schedule", schedule, "The learning rate over the steps.");
    f.section("run", run, "How long, how much at once, and when to evaluate and save.");
    f.section("watch", watch, "What is shown while it runs.");
  }
};

/// Where each field's value comes from: "default", "cfg.json:4:16", "QUERN_THREADS" or "--set", by dotted
/// path.
using Origins = std::map<std::string, std::string>;

/// The longest config file that is read; that of a run with many labels is long.
inline constexpr std::uint64_t max_config_bytes = 16 << 20;

/// A config file's text and the name it has in messages.
struct ConfigText {
  std::string name;
  std::string text;
};

/// The config that the defaults, then each of `texts`, then QUERN_THREADS (`threads`; it sets run.threads and
/// nothing else), then each "key=value" of `sets` make, later ones over earlier ones. In `sets` the value is
/// JSON, else a string; "key=null" goes back to the default; "optim.betas.0=0.8" reaches into a list. Throws
/// ConfigErrors with all mistakes, sorted by source and place, cross-field checks included.
Config merge_config(const std::vector<ConfigText>& texts, const std::optional<std::string>& threads,
                    const std::vector<std::string>& sets, Origins* origins = nullptr);

/// merge_config on files (at most max_config_bytes each) and the environment. A file that is missing or a
/// directory is one of the ConfigErrors; one that may not be read is ErrorKind::io.
Config load_config(const std::vector<std::string>& files, const std::vector<std::string>& sets,
                   Origins* origins = nullptr);

/// The cross-field checks on a config made in code; throws ConfigErrors with all mistakes. merge_config has
/// done it.
void validate(const Config& config);

/// The config with the zeros that the config alone can settle filled in: model.d_ff (see hidden_width),
/// model.n_kv_heads (n_heads), schedule.decay_steps (run.max_steps) and, for wsd, schedule.cooldown_steps (a
/// fifth of those, or what the warmup leaves). Called once when a run is created; resolved(resolved(c))
/// equals resolved(c).
Config resolved(Config config);

/// The number of tokens the model gets: model.vocab_size, or the tokenizer's when that is 0. A model larger
/// than the tokenizer is padding; a smaller one throws ErrorKind::config.
std::int64_t checked_vocab_size(const ModelConfig& model, std::int64_t tokenizer_size,
                                const Origins* origins = nullptr);

/// The config as pretty JSON, every field (config.resolved.json). Throws Error(config) for one that could not
/// be read back: a path that is not UTF-8, more than max_config_bytes.
std::string to_json(const Config& config);

/// Only what did not come from the defaults (config.json: the config as given).
std::string given_json(const Config& config, const Origins& origins);

/// The fields in which two configs differ.
std::vector<Difference> differences(const Config& before, const Config& after);

/// Whether a resumed run may have another value here: run.max_steps, run.threads, the intervals,
/// run.keep_checkpoints and watch.*.
bool may_change_at_resume(const std::string& path);
/// Their names, for a message.
std::string resumable_fields();

/// The differences that a resume may not have; empty when `wanted` may continue `run`.
std::vector<Difference> frozen_differences(const Config& run, const Config& wanted);

/// Lines "  optim.learning_rate: 0.001 in the run, 0.002 asked for" for the message of exit 7.
std::string format(const std::vector<Difference>& differences);

}  // namespace quern
