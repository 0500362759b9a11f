// quern attention: which tokens a model's heads look at
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/parallel.hpp"
#include "quern/train/load.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/heatmap.hpp"

namespace quern::cli {

namespace {

constexpr std::int64_t most_tokens = 1024;

struct AttentionCommandOptions {
  std::string run, checkpoint = "best", prompt;
  std::optional<std::int64_t> layer, head;  // none: the last layer, all heads
  bool json = false;
};

std::int64_t checked(const std::string& option, std::int64_t wanted, std::int64_t count,
                     const std::string& field) {
  if (wanted < count) return wanted;
  throw Error(ErrorKind::config,
              option + " " + std::to_string(wanted) + ": the model has " + std::to_string(count) + " (" +
                  field + "), counted from 0",
              "0 to " + std::to_string(count - 1));
}

/// The prompt's tokens, as many as the model can read.
std::vector<std::int32_t> tokens_of(const LoadedRun& loaded, const std::string& prompt) {
  const auto ids = loaded.tokenizer.encode(read_part(loaded, prompt), {"--prompt", ErrorKind::config});
  if (ids.empty())
    throw Error(ErrorKind::config, "--prompt: no token is left to read", "a prompt with some text");
  const ModelConfig& model = loaded.config.model;
  if (has_table(model.position) && static_cast<std::int64_t>(ids.size()) > model.context_length)
    throw Error(ErrorKind::config,
                "--prompt: " + std::to_string(ids.size()) + " tokens, but the model's positions end at " +
                    std::to_string(model.context_length) + " (model.context_length)",
                "a shorter prompt");
  if (static_cast<std::int64_t>(ids.size()) > most_tokens)
    throw Error(ErrorKind::config,
                "--prompt: " + std::to_string(ids.size()) + " tokens have " +
                    std::to_string(ids.size() * ids.size()) + " weights a head, more than anybody reads",
                "at most " + std::to_string(most_tokens) + " tokens");
  return ids;
}

AttentionProbe look(const LoadedRun& loaded, const std::vector<std::int32_t>& ids,
                    const AttentionCommandOptions& options) {
  const ModelConfig& model = loaded.config.model;
  AttentionProbe probe;
  const std::int64_t last = model.n_layers - 1;
  probe.layers = {checked("--layer", options.layer.value_or(last), model.n_layers, "model.n_layers")};
  if (options.head) probe.heads = {checked("--head", *options.head, model.n_heads, "model.n_heads")};
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  loaded.model->logits(tape, {ids.data(), 1, static_cast<std::int64_t>(ids.size())}, nullptr, &probe);
  return probe;
}

void print_json(const LoadedRun& loaded, const std::vector<std::int32_t>& ids, const AttentionProbe& probe) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array(), maps = nlohmann::ordered_json::array();
  for (const std::int32_t id : ids) tokens.push_back(std::string(loaded.tokenizer.token_bytes(id)));
  for (const auto& [layer, head, weights] : probe.found) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(ids.size()))
      rows.push_back(std::vector<float>(row, row + static_cast<std::ptrdiff_t>(ids.size())));
    maps.push_back({{"layer", layer}, {"head", head}, {"weights", rows}});
  }
  write_json({{"step", loaded.step}, {"tokens", tokens}, {"maps", maps}});
}

void print_maps(const LoadedRun& loaded, const std::vector<std::int32_t>& ids, const AttentionProbe& probe) {
  const Terminal terminal = inspect_terminal(STDOUT_FILENO);
  std::vector<std::string> labels;
  for (const std::int32_t id : ids)
    labels.push_back(token_label(loaded.tokenizer.token_bytes(id), !terminal.utf8));
  if (const std::size_t shown = heatmap_size(labels, terminal); shown < ids.size())
    say("the terminal is too narrow for " + std::to_string(ids.size()) + " tokens: the last " +
        std::to_string(shown) + " are shown");
  for (const auto& [layer, head, weights] : probe.found)
    write_out((&weights == &probe.found.front().weights ? "" : "\n") + std::string("layer ") +
              std::to_string(layer) + ", head " + std::to_string(head) + '\n' +
              heatmap(weights, labels, terminal));
}

int run(const AttentionCommandOptions& options) {
  set_thread_count(default_threads());
  Files files;
  const LoadedRun loaded = load_run(files, options.run, options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  const auto ids = tokens_of(loaded, options.prompt);
  const AttentionProbe probe = look(loaded, ids, options);
  if (options.json)
    print_json(loaded, ids, probe);
  else
    print_maps(loaded, ids, probe);
  return 0;
}

}  // namespace

void add_attention(CLI::App& app) {
  const auto options = std::make_shared<AttentionCommandOptions>();
  CLI::App* command =
      add_command(app, "attention", "Show which tokens a model's heads look at",
                  {"quern attention --run runs/latest --prompt \"Once upon a time\"",
                   "quern attention --run runs/latest --layer 0 --head 1 --prompt \"One day\" --json"},
                  [options] { return run(*options); });
  add_text(*command, "--run", options->run, "DIR", "The run's directory")->required();
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  add_text(*command, "--prompt", options->prompt, "TEXT", "The text that the model reads")->required();
  add_number(*command, "--layer", options->layer, at_least(0), "The layer, from 0; the last one by default");
  add_number(*command, "--head", options->head, at_least(0), "The head, from 0; all of the layer by default");
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
