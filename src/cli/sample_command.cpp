// quern sample: text from a trained model
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "quern/base/parallel.hpp"
#include "quern/infer/generate.hpp"
#include "quern/train/load.hpp"
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

std::filesystem::path run_directory(const SampleOptions& options) {
  if (!options.run.empty()) return options.run;
  const std::filesystem::path latest = "runs/latest";
  if (std::filesystem::exists(latest)) return latest;
  throw Error(ErrorKind::config, "--run: no run is named, and there is no runs/latest",
              "name a run's directory, --run DIR, or train one first: quern train");
}

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
void say_how_it_went(const GenerateResult& result, const Transformer& model, bool first) {
  const long long T = model.config().context_length;
  if (first && result.dropped_tokens > 0) {
    std::fprintf(
        stderr,
        "the prompt is longer than the context of %lld tokens: the model did not read its first %lld\n", T,
        static_cast<long long>(result.dropped_tokens));
  }
  if (result.end == GenerateResult::End::context_full)
    std::fprintf(stderr, "the context of %lld tokens is full (--on-full stop)\n", T);
}

/// CLI11 reads -1 as 2^64 - 1.
std::string refuse_negative(const std::string& text) {
  return text.starts_with('-') ? text + " is out of range; expected an integer of 0 or more" : "";
}

int sample(SampleOptions options) {
  if (options.num_samples < 1)
    throw Error(ErrorKind::config,
                "--num-samples: " + std::to_string(options.num_samples) + " is out of range",
                "expected an integer of 1 or more");
  options.generate.on_full = options.on_full == "stop" ? OnFull::stop : OnFull::slide;
  quern::check(options.generate);

  set_thread_count(default_threads());
  Files files;
  const std::string prompt = read_prompt(files, options);
  const std::filesystem::path run = run_directory(options);
  const LoadedRun loaded = load_run(files, run, options.checkpoint);
  for (const std::string& warning : loaded.warnings) warn(warning);
  const auto ids = loaded.tokenizer.encode(prompt, prompt_source(options));
  std::fprintf(stderr, "%s, step %lld\n", run.string().c_str(), static_cast<long long>(loaded.step));

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
  command.add_option("--max-new-tokens", options.max_new_tokens, "Most tokens of a sample")
      ->capture_default_str();
  command
      .add_option("--temperature", sampler.temperature,
                  "0: always the most likely token; 1: as the model says")
      ->capture_default_str();
  command.add_option("--top-k", sampler.top_k, "Only the N most likely tokens; 0: all")
      ->capture_default_str();
  command
      .add_option("--top-p", sampler.top_p, "Only the most likely tokens that hold this probability together")
      ->capture_default_str();
  command
      .add_option("--min-p", sampler.min_p,
                  "Only tokens at least this share as likely as the most likely one")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", sampler.repetition_penalty,
                  "Above 1: tokens that stand there already become less likely")
      ->capture_default_str();
  command.add_option("--stop", options.stop, "End the sample before this string; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_option("--seed", sampler.seed, "The same seed draws the same text")
      ->check(refuse_negative, "")
      ->capture_default_str();
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
  command->add_option("--run", options->run, "The run's directory; runs/latest when there is one")
      ->type_name("DIR");
  command->add_option("--checkpoint", options->checkpoint, "best, last, or a step")
      ->type_name("WHICH")
      ->capture_default_str();
  CLI::Option* prompt =
      command->add_option("--prompt", options->prompt, "What the text begins with")->type_name("TEXT");
  command->add_option("--prompt-file", options->prompt_file, "A file that holds the prompt")
      ->type_name("FILE")
      ->excludes(prompt);
  command->add_option("--num-samples", options->num_samples, "Samples, with a line --- between them")
      ->capture_default_str();
  add_sampling_options(*command, options->generate);
  command
      ->add_option("--on-full", options->on_full,
                   "When the context is full, slide (forget its oldest half and go on) or stop")
      ->check(CLI::IsMember({"slide", "stop"}))
      ->capture_default_str();
}

}  // namespace quern::cli
