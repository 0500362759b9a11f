#include "quern/train/session.hpp"

#include <cstdlib>
#include <memory>
#include <optional>

#include "config_check.hpp"
#include "quern/base/cpu.hpp"
#include "quern/base/durable.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/suggest.hpp"
#include "quern/data/baselines.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/train/environment.hpp"
#include "quern/train/estimate.hpp"
#include "quern/train/evaluate.hpp"
#include "quern/train/load.hpp"
#include "quern/train/model_tensors.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/train/schedule.hpp"
#include "quern/train/trainer.hpp"
#include "quern/watch/format.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

/// What a run stands on once its config, corpus and directory are settled.
struct Session {
  Config config;
  Dataset data;
  RunDirectory directory;
  std::optional<LoadedCheckpoint> checkpoint;  // where to go on from
  std::vector<std::string> warnings;
  std::int64_t metrics_bytes = 0;  // of the metrics that are kept
  bool changed = false;            // a resume's config is not the one that the run was left with
};

/// Refuses at once a prompt that would only fail at the first sample.
void check_sample_prompt(const Config& config, const Tokenizer& tokenizer) {
  if (config.watch.sample_interval > 0)
    tokenizer.encode(config.watch.sample_prompt, {"watch.sample_prompt", ErrorKind::config});
}

/// Files by absolute path, so that a run can be resumed from anywhere.
void make_absolute(DataConfig& data) {
  for (std::vector<std::string>* paths : {&data.text, &data.source, &data.target})
    for (std::string& path : *paths) path = fs::absolute(path).lexically_normal();
}

/// The threads of the run are those of this process from here on.
void use_threads(const RunConfig& run) {
  set_thread_count(run.threads != 0 ? static_cast<int>(run.threads) : default_threads());
}

/// Refuses what does not fit into memory.
void check_memory(const Config& config, const Dataset& data) {
  const auto batches = evaluation_batches(config, data);
  require_memory(config, batches ? batches->rows() : 0);
}

Session start(Files& files, const TrainRequest& request) {
  Origins origins;
  const Config given = load_config(request.config_files, request.sets, &origins);
  Dataset data = load_dataset(given.data, data_shape(given), std::nullopt, request.reading);
  Config config = settled(given, data, &origins);
  make_absolute(config.data);
  check_sample_prompt(config, data.tokenizer);
  use_threads(config.run);
  check_memory(config, data);
  RunDirectory directory =
      RunDirectory::create(files, {config.run.name, request.run_dir, "runs", request.overwrite});
  directory.begin({given_json(given, origins), to_json(config),
                   environment_json(request.commit, thread_count()), data.tokenizer.to_json()});
  return {config, std::move(data), std::move(directory), std::nullopt, idle_settings(given)};
}

void require_same(const std::string& before, const std::string& now, const std::string& what) {
  if (before == now) return;
  throw Error(ErrorKind::run, what + " is not the one this run was trained with",
              "restore the file, or start a new run");
}

/// The checkpoint that a user names: there must be one (7), and it must be intact (3).
LoadedCheckpoint open_named(Files& files, const CheckpointStore& store, const fs::path& path) {
  if (fs::exists(path)) return open_checkpoint(files, path);
  const std::string steps = listed(store.steps());
  throw Error(ErrorKind::run, "there is no checkpoint " + path.string(),
              steps.empty() ? "this run has none yet; resume the run itself"
                            : "this run has checkpoints of steps " + steps);
}

/// What the numbers depend on in their last bits, as it was and is.
void note_machine(const CheckpointState& state, std::vector<std::string>& warnings) {
  const std::string isa_before = state.isa.value_or(std::string(name(isa())));
  const std::int64_t threads_before = state.threads.value_or(thread_count());
  if (isa_before == name(isa()) && threads_before == thread_count()) return;
  const auto text = [](std::int64_t threads, const std::string& level) {
    return std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + level;
  };
  warnings.push_back("this run was trained on " + text(threads_before, isa_before) + " and goes on with " +
                     text(thread_count(), std::string(name(isa()))) +
                     ": from here on its numbers are others in their last digits");
}

/// The schedule's end is the run's from its start on: what is added to it is trained at the rate there.
void note_schedule(const Config& config, std::vector<std::string>& warnings) {
  const std::int64_t end = config.schedule.decay_steps;
  if (!decays(config.schedule.kind) || end >= config.run.max_steps) return;
  warnings.push_back("the schedule ends at step " + std::to_string(end) +
                     ", where the run was to end when it began: the steps behind it have the learning rate " +
                     scientific(learning_rate(end, config.optim, config.schedule), 3));
}

Session resume(Files& files, const TrainRequest& request, const fs::path& run,
               const std::optional<fs::path>& named) {
  RunDirectory directory = RunDirectory::resume(files, run);
  const Config created = load_run_config(files, directory.path());
  const Config config = resumed_config(request, created);
  const Tokenizer tokenizer = Tokenizer::load(directory.tokenizer());
  check_settled(config, tokenizer, directory.resolved_config());
  check_sample_prompt(config, tokenizer);
  Session session{config,
                  load_dataset(config.data, data_shape(config), tokenizer, request.reading),
                  std::move(directory),
                  std::nullopt,
                  {},
                  0,
                  to_json(config) != to_json(created)};
  use_threads(config.run);
  check_memory(config, session.data);
  CheckpointStore store(files, session.directory.path());
  if (named) {
    session.checkpoint.emplace(open_named(files, store, session.directory.checkpoints() / named->filename()));
    const auto steps = store.steps();
    if (!steps.empty() && steps.front() > session.checkpoint->step())
      session.warnings.push_back("this run had come to step " + std::to_string(steps.front()) +
                                 "; it goes on from step " + std::to_string(session.checkpoint->step()) +
                                 " and its later checkpoints are deleted");
  } else {
    auto found = store.find_latest();
    session.warnings = std::move(found.warnings);
    session.checkpoint = std::move(found.checkpoint);
  }
  if (session.checkpoint) {
    const CheckpointState state = state_of(*session.checkpoint);
    require_same(state.corpus, session.data.fingerprint, "the corpus \"" + session.data.name + "\"");
    require_same(state.tokenizer, tokenizer.fingerprint(), "tokenizer.json");
    if (session.checkpoint->step() > config.run.max_steps)
      throw Error(ErrorKind::run,
                  "run.max_steps is " + std::to_string(config.run.max_steps) +
                      ", but the checkpoint is of step " + std::to_string(session.checkpoint->step()),
                  "name a larger run.max_steps, or resume an earlier checkpoint");
    note_machine(state, session.warnings);
    note_schedule(config, session.warnings);
    const MetricsCut cut =
        metrics_cut(files, session.directory.metrics(), state.metrics_bytes, session.checkpoint->step());
    session.metrics_bytes = cut.bytes;
    if (!cut.warning.empty()) session.warnings.push_back(cut.warning);
    require_finite(*session.checkpoint);
  }
  return session;
}

/// The first that a resume changes of the run, when all of it is loaded and checked: one that is refused
/// deletes nothing.
void go_on(Files& files, const Session& session, CheckpointStore& store) {
  if (session.checkpoint) store.discard_after(session.checkpoint->step());
  // What a resume has changed stays, so that the next one need not say it again.
  if (session.changed)
    replace_file_durably(files, session.directory.resolved_config(), to_json(session.config));
}

Session prepare(Files& files, const TrainRequest& request) {
  if (request.resume.empty()) return start(files, request);
  if (request.overwrite)
    throw Error(ErrorKind::config, "--resume and --overwrite exclude each other", "give one of them");
  if (request.resume == "auto") {
    if (request.run_dir.empty())
      throw Error(ErrorKind::config, "--resume auto needs --run-dir",
                  "name the run's directory with --run-dir DIR");
    if (directory_state(files, request.run_dir) == DirectoryState::run)
      return resume(files, request, request.run_dir, std::nullopt);
    return start(files, request);
  }
  const fs::path path = without_slash(fs::path(request.resume).lexically_normal());
  const auto run_of = run_of_checkpoint(path);
  const fs::path run = run_of.value_or(path);
  if (!request.run_dir.empty() && fs::weakly_canonical(request.run_dir) != fs::weakly_canonical(run))
    throw Error(ErrorKind::config, "--run-dir and --resume name different runs", "leave --run-dir away");
  return resume(files, request, run, run_of ? std::optional(path) : std::nullopt);
}

/// What the user should know about a text that is what the config asks for, but for nothing.
void note_documents(const Config& config, const Dataset& data, std::vector<std::string>& warnings) {
  if (config.data.pack == PackKind::documents && data.corpus && data.corpus->documents.size() == 1)
    warnings.push_back(
        "data.pack is documents, but the text is a single one: name several files in data.text, "
        "or end each document with " +
        std::string(end_of_text));
}

/// What a masked language model must beat, said beside its own accuracy.
std::string baselines(const Config& config, const Dataset& data) {
  EvalWindows windows = evaluation_windows(config, data);
  const MaskedBaselines found = masked_baselines(data.corpus->train(), windows, data.tokenizer.vocab_size());
  return "accuracy without a model: " + fixed(found.unigram, 4) + " by the most frequent token, " +
         fixed(found.bigram, 4) + " by the most frequent one behind its neighbour";
}

StartEvent describe(const Session& session, const Model& model) {
  StartEvent event;
  const Config& config = session.config;
  event.step = session.checkpoint ? session.checkpoint->step() : 0;
  event.max_steps = config.run.max_steps;
  event.parameters = model.parameters().parameter_count();
  event.vocab_size = config.model.vocab_size;
  const std::int64_t rows = config.run.batch_size * config.run.grad_accumulation;
  if (session.data.corpus) {
    event.train_tokens = session.data.train_size();
    event.val_tokens = session.data.val_size();
    event.tokens_per_step = rows * config.model.context_length;
    event.entropy_floor = is_masked(config) ? std::nullopt : session.data.corpus->entropy_floor;
  } else {
    event.examples = {session.data.train_size(), session.data.val_size(),
                      config.run.batch_tokens > 0 ? 0 : rows};
  }
  event.name = config.run.name;
  event.run_dir = session.directory.path();
  event.threads = thread_count();
  event.isa = name(isa());
  event.precision = enum_name(config.run.precision);
  event.data_fingerprint = session.data.fingerprint;
  return event;
}

}  // namespace

int default_threads() {
  // What OpenMP cannot read as a number, an empty text for one, it takes for all cores of the affinity mask.
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  return wanted != nullptr && std::atoi(wanted) > 0 ? thread_count() : usable_cores();
}

Config resumed_config(const TrainRequest& request, const Config& run) {
  Config wanted;
  if (request.config_files.empty()) {
    const char* threads = std::getenv("QUERN_THREADS");
    wanted =
        merge_config({{"config.resolved.json", to_json(run)}},
                     threads != nullptr ? std::optional<std::string>(threads) : std::nullopt, request.sets);
  } else {
    wanted = load_config(request.config_files, request.sets);
    make_absolute(wanted.data);
    if (wanted.model.vocab_size == 0) wanted.model.vocab_size = run.model.vocab_size;
    if (wanted.model.n_outputs == 0) wanted.model.n_outputs = run.model.n_outputs;
    if (wanted.model.image.empty()) wanted.model.image = run.model.image;
    if (wanted.data.labels.empty()) wanted.data.labels = run.data.labels;
    wanted.model.head = head_of(wanted);
    wanted.model.reads_source = run.model.reads_source;
    if (wanted.schedule.decay_steps == 0) wanted.schedule.decay_steps = run.schedule.decay_steps;
    wanted = resolved(wanted);
  }
  if (const auto differences = frozen_differences(run, wanted); !differences.empty()) {
    std::string lines = format(differences);
    lines.pop_back();
    throw Error(ErrorKind::run, "this run cannot go on with another config:\n" + lines,
                "a resume may change " + resumable_fields() + "; else start a new run");
  }
  return wanted;
}

RunPlan plan_run(const std::vector<std::string>& config_files, const std::vector<std::string>& sets,
                 const ReadingProgress& reading) {
  Origins origins;
  const Config given = load_config(config_files, sets, &origins);
  Dataset data = load_dataset(given.data, data_shape(given), std::nullopt, reading);
  Config config = settled(given, data, &origins);
  make_absolute(config.data);
  use_threads(config.run);
  return {std::move(config), std::move(data)};
}

TrainOutcome train(Files& files, const TrainRequest& request, const Watch& watch) {
  Session session = prepare(files, request);
  const Config& config = session.config;
  Model model(config.model, true, type_of(config.run.precision));
  if (session.checkpoint) {
    read_model(*session.checkpoint, model.parameters());
    read_moments(*session.checkpoint, model.parameters());
  }
  Observers observers;
  if (watch) watch(observers, config, session.directory.path());
  CheckpointStore store(files, session.directory.path());
  go_on(files, session, store);
  JsonlWriter metrics(files, session.directory.metrics(), session.metrics_bytes);
  observers.add_first(metrics);
  Tracer tracer(files, config.run, session.directory.trace());
  Trainer trainer(config, session.data, model, store, metrics, observers, tracer);

  const StartEvent about = describe(session, model);
  if (session.checkpoint) {
    trainer.restore(*session.checkpoint);
    observers.on_resume({about, "ckpt/" + session.checkpoint->path().filename().string()});
    session.checkpoint.reset();
  } else {
    model.parameters().initialise(config.run.seed);
    observers.on_start(about);
  }
  session.warnings.insert(session.warnings.end(), session.directory.warnings().begin(),
                          session.directory.warnings().end());
  note_documents(config, session.data, session.warnings);
  session.warnings.insert(session.warnings.end(), session.data.notes.begin(), session.data.notes.end());
  if (config.run.precision == Precision::bf16 && !gemm_has_bf16())
    session.warnings.push_back(
        "this processor has no bf16 products: they are done in f32, with the same rounding "
        "and slower than run.precision f32");
  if (is_masked(config) && session.data.val_size() > 0)
    observers.on_note({about.step, baselines(config, session.data), false});
  for (const std::string& warning : session.warnings) observers.on_note({about.step, warning, true});
  if (about.step > 0 && about.step == about.max_steps)
    observers.on_note({about.step, "all its steps are done; more of them: --set run.max_steps=N", false});
  return {trainer.run(), session.directory.path()};
}

}  // namespace quern
