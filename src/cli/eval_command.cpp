// quern eval
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "quern/base/parallel.hpp"
#include "quern/data/corpus.hpp"
#include "quern/train/evaluate.hpp"
#include "quern/train/load.hpp"
#include "quern/train/session.hpp"
#include "quern/train/signals.hpp"

namespace quern::cli {

namespace {

struct EvalCommandOptions {
  std::string run, checkpoint = "best", text;
  std::optional<std::int64_t> context_length;  // none: the model's
  bool json = false;
};

/// The tokens of a window: the model's, or those asked for if the model can read so many.
std::int64_t window_length(const Config& config, std::optional<std::int64_t> wanted) {
  const std::int64_t trained = config.model.context_length;
  if (!wanted) return trained;
  const std::int64_t asked = *wanted;
  const std::string what = "--context-length " + std::to_string(asked) + ": ";
  if (asked > trained && has_table(config.model.position))
    throw Error(ErrorKind::config,
                what + "the model's positions (model.position " +
                    std::string(enum_name(config.model.position)) +
                    ") are a table that ends at model.context_length (" + std::to_string(trained) + ")",
                "at most " + std::to_string(trained) + ", or a model trained with rope, alibi or none");
  if (asked < config.data.eval_stride)
    throw Error(ErrorKind::config,
                what + "less than data.eval_stride (" + std::to_string(config.data.eval_stride) +
                    "), so tokens would be left out",
                "at least " + std::to_string(config.data.eval_stride));
  return asked;
}

/// The run's own validation split, or the whole of another text; it holds a window of `length` tokens.
Corpus corpus_of(const LoadedRun& run, const std::string& text, std::int64_t length) {
  DataConfig data = run.config.data;
  if (!text.empty()) {
    data.text = {text};
    data.val_fraction = 1;
  }
  Corpus corpus = load_corpus(data, std::min(length, run.config.model.context_length), run.tokenizer);
  const std::int64_t tokens = corpus.val().size();
  if (tokens == 0)
    throw Error(ErrorKind::file, "this run has no validation split (data.val_fraction is 0)",
                "name a text with --text FILE");
  if (tokens <= length)
    throw Error(ErrorKind::file,
                "--context-length " + std::to_string(length) + ": one window needs " +
                    std::to_string(length + 1) + " tokens, the text has " + std::to_string(tokens),
                "at most --context-length " + std::to_string(tokens - 1) + ", or a longer text", corpus.name);
  return corpus;
}

int run(const EvalCommandOptions& options) {
  set_thread_count(default_threads());
  Files files;
  const LoadedRun loaded = load_run(files, options.run, options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  const Config& config = loaded.config;
  const std::int64_t length = window_length(config, options.context_length);
  const Corpus corpus = corpus_of(loaded, options.text, length);
  // Longer windows, fewer of them at a time: the memory stays that of training.
  const std::int64_t rows = config.run.batch_size * config.model.context_length / length;
  EvalWindows windows(corpus.val(), loaded.tokenizer,
                      {length, config.data.eval_stride, std::max<std::int64_t>(1, rows), 0});
  Workspace workspace;
  const SignalGuard signals;
  const auto found = evaluate(*loaded.model, workspace, windows, [] { return stop_signal() != 0; });
  if (!found) return 128 + stop_signal();
  if (options.json) {
    write_json({{"loss", found->loss},
                {"perplexity", found->perplexity()},
                {"bits_per_byte", found->bits_per_byte()},
                {"tokens", found->tokens},
                {"context_length", length},
                {"step", loaded.step}});
  } else {
    char text[200];
    std::snprintf(text, sizeof text,
                  "step %lld: loss %.6f nats per token, perplexity %.4f, %.5f bits per byte, %lld tokens\n",
                  static_cast<long long>(loaded.step), found->loss, found->perplexity(),
                  found->bits_per_byte(), static_cast<long long>(found->tokens));
    write_out(text);
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
  add_text(*command, "--run", options->run, "DIR", "The run's directory")->required();
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  add_text(*command, "--text", options->text, "FILE", "Evaluate the whole of this text instead");
  add_number(*command, "--context-length", options->context_length, between(1, 1 << 24),
             "Tokens of a window instead of model.context_length; more than those only for a model whose "
             "positions have no table (rope, alibi, none)");
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
