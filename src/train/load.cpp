#include "quern/train/load.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "quern/base/suggest.hpp"
#include "quern/data/corpus.hpp"
#include "quern/train/model_tensors.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/watch/metrics.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

/// Among the checkpoints that are there, the one with the lowest validation loss.
std::optional<std::int64_t> best_step(const fs::path& run, const std::vector<std::int64_t>& steps) {
  std::optional<std::int64_t> best;
  double lowest = std::numeric_limits<double>::infinity();
  for (const EvalEvent& eval : read_run(run).evals)
    if (eval.loss < lowest && std::find(steps.begin(), steps.end(), eval.step) != steps.end()) {
      lowest = eval.loss;
      best = eval.step;
    }
  return best;
}

std::int64_t parse_step(const std::string& text) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0)
    throw Error(ErrorKind::config, "--checkpoint: \"" + text + "\" is neither best, last nor a step",
                "use --checkpoint best, --checkpoint last or a number such as --checkpoint 500");
  return step;
}

/// The checkpoint that is asked for.
LoadedCheckpoint choose(Files& files, const fs::path& run, const std::string& wanted,
                        std::vector<std::string>& warnings) {
  CheckpointStore store(files, run);
  const auto steps = store.steps();
  if (steps.empty())
    throw Error(ErrorKind::run, run.string() + " has no checkpoint yet",
                "train it further: quern train --resume " + shell_word(run.string()));
  std::optional<std::int64_t> step;
  if (wanted == "best") {
    step = best_step(run, steps);
  } else if (wanted != "last") {
    step = parse_step(wanted);
    if (std::find(steps.begin(), steps.end(), *step) == steps.end())
      throw Error(ErrorKind::run, run.string() + " has no checkpoint of step " + wanted,
                  "it has those of steps " + listed(steps));
  }
  if (step) return open_checkpoint(files, store.path_of(*step), CheckpointParts::model);
  auto found = store.find_latest(CheckpointParts::model);
  warnings = std::move(found.warnings);
  return std::move(*found.checkpoint);
}

}  // namespace

std::string_view read_part(const LoadedRun& run, std::string_view prompt) {
  if (run.config.data.pack != PackKind::documents) return prompt;
  const std::size_t end = prompt.rfind(end_of_text);
  return end == std::string_view::npos ? prompt : prompt.substr(end + end_of_text.size());
}

Config load_run_config(Files& files, const fs::path& run) {
  require_run(files, run);
  return load_config({(run / "config.resolved.json").string()}, {});
}

void check_settled(const Config& config, const Tokenizer& tokenizer, const fs::path& path) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::file, what, "the run's files are not of one run: restore them", path.string());
  };
  const ModelConfig& m = config.model;
  if (m.architecture == Architecture::rnn && m.reads_source != is_pair(config.data.task))
    refuse("model.reads_source is false, and data.task asks questions");
  const auto labels = static_cast<std::int64_t>(config.data.labels.size());
  const HeadKind head = head_of(config);
  if ((head == HeadKind::label || head == HeadKind::tags) && (labels < 1 || labels > m.n_outputs))
    refuse("data.labels has " + std::to_string(labels) + " entries, and model.n_outputs is " +
           std::to_string(m.n_outputs));
  if (m.architecture == Architecture::vit) {
    if (m.image.empty()) refuse("model.image is empty");
    return;
  }
  const std::int64_t tokens = tokenizer.vocab_size() + (is_masked(config) ? 1 : 0);
  if (tokens > m.vocab_size)
    refuse("model.vocab_size is " + std::to_string(m.vocab_size) + ", and tokenizer.json has " +
           std::to_string(tokenizer.vocab_size()) + " tokens" +
           (is_masked(config) ? " beside the mask" : ""));
}

Config stored_config(Files& files, const fs::path& run) {
  const fs::path path = run / "config.resolved.json";
  return merge_config({{path.string(), read_file(files, path, max_config_bytes)}}, std::nullopt, {});
}

LoadedRun load_run(Files& files, const fs::path& run, const std::string& checkpoint) {
  LoadedRun loaded{load_run_config(files, run), Tokenizer::load(run / "tokenizer.json"), nullptr, 0, {}};
  check_settled(loaded.config, loaded.tokenizer, run / "config.resolved.json");
  const LoadedCheckpoint from = choose(files, run, checkpoint, loaded.warnings);
  loaded.model = std::make_unique<Model>(loaded.config.model, false, type_of(loaded.config.run.precision));
  read_model(from, loaded.model->parameters());
  loaded.step = from.step();
  return loaded;
}

}  // namespace quern
