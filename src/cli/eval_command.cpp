// quern eval
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

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
  bool json = false;
};

/// The run's own validation split, or the whole of another text.
Corpus corpus_of(const LoadedRun& run, const std::string& text) {
  DataConfig data = run.config.data;
  if (!text.empty()) {
    data.text = {text};
    data.val_fraction = 1;
  }
  Corpus corpus = load_corpus(data, run.config.model.context_length, run.tokenizer);
  if (corpus.val().size() == 0)
    throw Error(ErrorKind::file, "this run has no validation split (data.val_fraction is 0)",
                "name a text with --text FILE");
  return corpus;
}

int run(const EvalCommandOptions& options) {
  set_thread_count(default_threads());
  Files files;
  const LoadedRun loaded = load_run(files, options.run, options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  const Corpus corpus = corpus_of(loaded, options.text);
  const Config& config = loaded.config;
  EvalWindows windows(corpus.val(), loaded.tokenizer,
                      {config.model.context_length, config.data.eval_stride, config.run.batch_size, 0});
  Workspace workspace;
  const SignalGuard signals;
  const auto found = evaluate(*loaded.model, workspace, windows, [] { return stop_signal() != 0; });
  if (!found) return 128 + stop_signal();
  if (options.json) {
    write_json({{"loss", found->loss},
                {"perplexity", found->perplexity()},
                {"bits_per_byte", found->bits_per_byte()},
                {"tokens", found->tokens},
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
       "quern eval --run runs/latest --checkpoint last"},
      [options] { return run(*options); });
  add_text(*command, "--run", options->run, "DIR", "The run's directory")->required();
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  add_text(*command, "--text", options->text, "FILE", "Evaluate the whole of this text instead");
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
