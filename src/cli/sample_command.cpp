// quern sample: text from a trained model
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "quern/base/parallel.hpp"
#include "quern/data/corpus.hpp"
#include "quern/infer/generate.hpp"
#include "quern/train/load.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/session.hpp"
#include "quern/train/signals.hpp"
#include "quern/watch/terminal.hpp"

namespace quern::cli {

namespace {

constexpr std::uint64_t max_prompt_bytes = 64 << 20;

struct SampleOptions {
  std::string run;
  std::string checkpoint = "best";
  std::string prompt;
  std::string prompt_file;
  std::int64_t num_samples = 1;
  std::string on_full = "slide";
  GenerateOptions generate;

  SampleOptions() { generate.sampler.temperature = 0.8; }
};

/// stdout; on a terminal what a model may have learned to write cannot command it.
class Output {
 public:
  void write(std::string_view text) {
    if (text.empty()) return;
    write_out(terminal_.tty ? harmless(text, !terminal_.utf8) : std::string(text));
    last_ = text.back();
  }
  void end_line() {
    if (last_ != '\n') write("\n");
  }

 private:
  Terminal terminal_ = inspect_terminal(STDOUT_FILENO);
  char last_ = '\n';
};

std::string read_prompt(Files& files, const SampleOptions& options) {
  return options.prompt_file.empty() ? options.prompt
                                     : read_file(files, options.prompt_file, max_prompt_bytes);
}

Source prompt_source(const SampleOptions& options) {
  if (options.prompt_file.empty()) return {"--prompt", ErrorKind::config};
  return {options.prompt_file, ErrorKind::file};
}

/// What is worth knowing of a sample and does not show in its text; of the prompt once, it is the same for
/// all.
void say_how_it_went(const GenerateResult& result, const Model& model, bool first) {
  const std::string context = "the context of " + std::to_string(model.config().context_length) + " tokens";
  if (first && result.dropped_tokens > 0) {
    say("the prompt is longer than " + context + ": the model did not read its first " +
        std::to_string(result.dropped_tokens));
  }
  if (result.end == GenerateResult::End::context_full) say(context + " is full (--on-full stop)");
}

/// A model that continues texts.
void require_generative(const LoadedRun& run) {
  if (framing_of(run.config) == Framing::stream) return;
  throw Error(ErrorKind::config,
              "this run's model does not continue texts (model.architecture " +
                  std::string(enum_name(run.config.model.architecture)) + ")",
              run.model->has_memory() ? "use quern translate" : "use quern predict");
}

int sample(SampleOptions options) {
  options.generate.on_full = options.on_full == "stop" ? OnFull::stop : OnFull::slide;
  quern::check(options.generate);

  set_thread_count(default_threads());
  Files files;
  const std::string prompt = read_prompt(files, options);
  const std::filesystem::path run = run_or_latest(options.run);
  const LoadedRun loaded = load_run(files, run, options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  require_generative(loaded);
  const auto ids = loaded.tokenizer.encode(read_part(loaded, prompt), prompt_source(options));
  if (loaded.config.data.pack == PackKind::documents)
    options.generate.stop.emplace_back(end_of_text);  // behind it training begins anew
  say(run.string() + ", step " + std::to_string(loaded.step));

  const SignalGuard guard;
  Output output;
  for (std::int64_t i = 0; i < options.num_samples; ++i) {
    if (i > 0) output.write("---\n");
    output.write(prompt);
    options.generate.sample_index = i;
    const auto result = generate(
        *loaded.model, loaded.tokenizer, ids, options.generate,
        [&output](std::string_view text) { output.write(text); }, [] { return stop_signal() != 0; });
    output.end_line();
    say_how_it_went(result, *loaded.model, i == 0);
    if (stop_signal() != 0) return 128 + stop_signal();
  }
  return 0;
}

void add_sampling_options(CLI::App& command, GenerateOptions& options) {
  SamplerOptions& sampler = options.sampler;
  const FieldRange any;  // check(GenerateOptions) knows the ranges
  add_number(command, "--max-new-tokens", options.max_new_tokens, any, "Most tokens of a sample");
  add_number(command, "--temperature", sampler.temperature, any,
             "0: always the most likely token; 1: as the model says");
  add_number(command, "--top-k", sampler.top_k, any, "Only the N most likely tokens; 0: all");
  add_number(command, "--top-p", sampler.top_p, any,
             "Only the most likely tokens that hold this probability together");
  add_number(command, "--min-p", sampler.min_p, any,
             "Only tokens at least this share as likely as the most likely one");
  add_number(command, "--repetition-penalty", sampler.repetition_penalty, any,
             "Above 1: tokens that stand there already become less likely");
  command.add_option("--stop", options.stop, "End the sample before this string; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  add_number(command, "--seed", sampler.seed, any, "The same seed draws the same text");
}

}  // namespace

void add_sample(CLI::App& app) {
  const auto options = std::make_shared<SampleOptions>();
  CLI::App* command =
      add_command(app, "sample", "Write text with a trained model",
                  {"quern sample --prompt \"Once upon a time\"",
                   "quern sample --run runs/latest --temperature 0 --max-new-tokens 100",
                   "quern sample --run runs/latest --checkpoint last --top-k 40 --num-samples 3 --seed 7"},
                  [options] { return sample(*options); });
  add_run_option(*command, options->run);
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  CLI::Option* prompt =
      command->add_option("--prompt", options->prompt, "What the text begins with")->type_name("TEXT");
  add_text(*command, "--prompt-file", options->prompt_file, "FILE", "A file that holds the prompt")
      ->excludes(prompt);
  add_number(*command, "--num-samples", options->num_samples, at_least(1),
             "Samples, with a line --- between them");
  add_sampling_options(*command, options->generate);
  add_choice(*command, "--on-full", options->on_full, {"slide", "stop"},
             "When the context is full, slide (forget its oldest half and go on) or stop");
}

}  // namespace quern::cli
