// quern eval
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "quern/base/parallel.hpp"
#include "quern/train/evaluate.hpp"
#include "quern/train/load.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/session.hpp"
#include "quern/train/signals.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/progress.hpp"

namespace quern::cli {

namespace {

struct EvalCommandOptions {
  std::string run, checkpoint = "best", text, split = "val";
  std::optional<std::int64_t> context_length;  // none: the model's
  bool json = false;
};

/// The tokens of a window: the model's, or those asked for if the model can read so many.
std::int64_t window_length(const Config& config, std::optional<std::int64_t> wanted) {
  const std::int64_t trained = config.model.context_length;
  if (!wanted) return trained;
  const std::int64_t asked = *wanted;
  const std::string what = "--context-length " + std::to_string(asked) + ": ", most = std::to_string(trained);
  if (config.data.task != TaskKind::text)
    throw Error(ErrorKind::config,
                what + "this run learned data.task " + std::string(enum_name(config.data.task)) +
                    ", whose examples have lengths of their own",
                "leave --context-length out");
  if (asked > trained && has_table(config.model.position))
    throw Error(ErrorKind::config,
                what + "the model's positions (model.position " +
                    std::string(enum_name(config.model.position)) +
                    ") are a table that ends at model.context_length (" + most + ")",
                "at most " + most + ", or a model trained with rope, alibi or none");
  if (asked > trained && ends_at_context_length(config.model))
    throw Error(ErrorKind::config,
                what + "the model's low-rank attention ends at model.context_length (" + most + ")",
                "at most " + most + ", or a model trained with another model.attention");
  if (asked < config.data.eval_stride)
    throw Error(ErrorKind::config,
                what + "less than data.eval_stride (" + std::to_string(config.data.eval_stride) +
                    "), so tokens would be left out",
                "at least " + std::to_string(config.data.eval_stride));
  return asked;
}

/// The run's own data, or the whole of another text as its validation split; the split holds a window of
/// `length` tokens.
Dataset data_of(const LoadedRun& run, const std::string& text, Split split, std::int64_t length) {
  DataConfig config = run.config.data;
  if (!text.empty()) {
    if (problem_kind(config.task) || config.task == TaskKind::shapes)
      throw Error(ErrorKind::config,
                  "--text: this run learned data.task " + std::string(enum_name(config.task)) +
                      ", which reads no file",
                  "leave --text out");
    config.text = {text};
    config.source.clear(), config.target.clear();
    config.val_fraction = 1;
  }
  DataShape shape = data_shape(run.config);
  if (config.task == TaskKind::text) shape.context_length = std::min(length, shape.context_length);
  Dataset data = load_dataset(config, shape, run.tokenizer, reading_line());
  const std::int64_t tokens = data.size(split);
  if (tokens == 0)
    throw Error(ErrorKind::file, "this run has no validation split (data.val_fraction is 0)",
                "name a text with --text FILE, or measure what it learned from with --split train");
  if (data.corpus && tokens <= length)
    throw Error(ErrorKind::file,
                "--context-length " + std::to_string(length) + ": one window needs " +
                    std::to_string(length + 1) + " tokens, the text has " + std::to_string(tokens),
                "at most --context-length " + std::to_string(tokens - 1) + ", or a longer text", data.name);
  return data;
}

nlohmann::ordered_json json_of(const Evaluation& found, const std::string& split, std::int64_t length,
                               std::int64_t step) {
  nlohmann::ordered_json object = {
      {"split", split}, {"loss", found.loss}, {"perplexity", found.perplexity()}};
  if (found.bytes > 0) object["bits_per_byte"] = found.bits_per_byte();
  object["tokens"] = found.tokens;
  for (const TaskMetric& metric : found.metrics) object[metric.name] = metric.value;
  object["context_length"] = length;
  object["step"] = step;
  return object;
}

std::string text_of(const Evaluation& found, std::int64_t step, HeadKind head) {
  std::string text = "step " + std::to_string(step) + ": loss " + fixed(found.loss, 6);
  if (head != HeadKind::value) text += " nats per token, perplexity " + fixed(found.perplexity(), 4);
  if (found.bytes > 0) text += ", " + fixed(found.bits_per_byte(), 5) + " bits per byte";
  for (const TaskMetric& metric : found.metrics) text += ", " + metric.name + " " + fixed(metric.value, 4);
  return text + ", " + std::to_string(found.tokens) + (head == HeadKind::value ? " values\n" : " tokens\n");
}

int run(const EvalCommandOptions& options) {
  set_thread_count(default_threads());
  Files files;
  const LoadedRun loaded = load_run(files, run_or_latest(options.run), options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  const Config& config = loaded.config;
  const std::int64_t length = window_length(config, options.context_length);
  const Split split = options.split == "train" ? Split::train : Split::val;
  const Dataset data = data_of(loaded, options.text, split, length);
  Config whole = config;
  whole.run.eval_batches = 0;
  // Longer windows, fewer of them at a time: the memory stays that of training.
  whole.run.batch_size =
      std::max<std::int64_t>(1, config.run.batch_size * config.model.context_length / length);
  whole.model.context_length = length;
  EvalBatches batches = *evaluation_batches(whole, data, split);
  Workspace workspace;
  const SignalGuard signals;
  ProgressLine progress(inspect_terminal(STDERR_FILENO), "evaluating batch", batches.batches());
  std::int64_t read = 0;
  const auto found = evaluate(config, *loaded.model, workspace, batches, [&] {
    progress.update(read++);
    return stop_signal() != 0;
  });
  progress.erase();
  if (!found) return 128 + stop_signal();
  if (options.json) {
    write_json(json_of(*found, options.split, length, loaded.step));
  } else {
    write_out(text_of(*found, loaded.step, head_of(config)));
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app) {
  const auto options = std::make_shared<EvalCommandOptions>();
  CLI::App* command = add_command(
      app, "eval", "Measure a run's loss on its validation split or on another text",
      {"quern eval --run runs/latest", "quern eval --run runs/latest --text data/toy.heldout.txt --json",
       "quern eval --run runs/latest --checkpoint last --context-length 512"},
      [options] { return run(*options); });
  add_run_option(*command, options->run);
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  CLI::Option* text =
      add_text(*command, "--text", options->text, "FILE", "Evaluate the whole of this text instead");
  add_choice(
      *command, "--split", options->split, {"val", "train"},
      "Which part of the run's own data; of drawn examples without end the first that training saw, as "
      "many as the validation split has")
      ->excludes(text);
  add_number(*command, "--context-length", options->context_length, between(1, 1 << 24),
             "Tokens of a window of a text instead of model.context_length; more than those only for a model "
             "whose positions have no table (rope, alibi, none)");
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
