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
#include "quern/train/objective.hpp"
#include "quern/train/predict.hpp"
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

/// The prompt's tokens, as many as the model can read; `marked`: behind the mark that a whole text has first.
std::vector<std::int32_t> tokens_of(const LoadedRun& loaded, const std::string& prompt, bool marked) {
  auto ids = loaded.tokenizer.encode(read_part(loaded, prompt), {"--prompt", ErrorKind::config});
  if (ids.empty())
    throw Error(ErrorKind::config, "--prompt: no token is left to read", "a prompt with some text");
  const std::string what = "--prompt: " + std::to_string(ids.size()) + " tokens";
  if (marked) ids.insert(ids.begin(), PairFraming(loaded.tokenizer, Framing::whole, false).mark());
  const ModelConfig& model = loaded.config.model;
  if (ends_at_context_length(model) && static_cast<std::int64_t>(ids.size()) > model.context_length)
    throw Error(ErrorKind::config,
                what + (marked ? " and a mark before them" : "") + ", but the model's " +
                    (has_table(model.position) ? "positions end" : "low-rank attention ends") + " at " +
                    std::to_string(model.context_length) + " (model.context_length)",
                "a shorter prompt");
  if (static_cast<std::int64_t>(ids.size()) > most_tokens)
    throw Error(ErrorKind::config,
                what + " have " + std::to_string(ids.size() * ids.size()) +
                    " weights a head, more than anybody reads",
                "at most " + std::to_string(most_tokens) + " tokens");
  return ids;
}

/// Who looks, at whom, and how.
struct Maps {
  std::vector<std::int32_t> rows, keys;  // tokens
  bool answer;                           // the rows are those of an answer
  AttentionProbe probe;

  /// Whether the columns are low-rank attention's mixtures of the keys, in every map.
  bool mixed() const { return probe.found.front().mixtures; }
  std::size_t columns() const {
    return mixed() ? static_cast<std::size_t>(probe.found.front().columns) : keys.size();
  }
};

AttentionProbe probe_of(const LoadedRun& loaded, const AttentionCommandOptions& options) {
  const ModelConfig& model = loaded.config.model;
  AttentionProbe probe;
  const std::int64_t last = model.architecture == Architecture::rnn ? 0 : model.n_layers - 1;
  probe.layers = {checked("--layer", options.layer.value_or(last), last + 1, "model.n_layers")};
  if (options.head) probe.heads = {checked("--head", *options.head, model.n_heads, "model.n_heads")};
  return probe;
}

/// A text that looks at itself.
Maps look(const LoadedRun& loaded, const AttentionCommandOptions& options) {
  const HeadKind head = head_of(loaded.config);
  const bool marked =
      framing_of(loaded.config) == Framing::whole && (head == HeadKind::label || head == HeadKind::value);
  const std::vector<std::int32_t> ids = tokens_of(loaded, options.prompt, marked);
  Maps maps{ids, ids, false, probe_of(loaded, options)};
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  loaded.model->logits(tape, {ids.data(), 1, static_cast<std::int64_t>(ids.size())}, nullptr, &maps.probe);
  return maps;
}

/// An answer that looks at its question: row t is the step that writes token t of it. An answer that ends at
/// the model's context_length has no step that ends it.
Maps look_at_question(const LoadedRun& loaded, const AttentionCommandOptions& options) {
  Maps maps{{}, tokens_of(loaded, options.prompt, false), true, probe_of(loaded, options)};
  const Source source = {"--prompt", ErrorKind::config};
  const auto answer = Predictor(loaded, BeamOptions()).predict(options.prompt, source, {});
  Example row;
  PairFraming(loaded.tokenizer, Framing::memory, false).frame(options.prompt, answer->text, source, row);
  const auto most = static_cast<std::size_t>(loaded.config.model.context_length);
  if (ends_at_context_length(loaded.config.model) && row.inputs.size() > most)
    row.inputs.resize(most), row.targets.resize(most);
  maps.rows = row.targets;
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  const auto length = [](const auto& ids) { return static_cast<std::int64_t>(ids.size()); };
  Memory memory = loaded.model->encode(tape, {maps.keys.data(), 1, length(maps.keys)});
  memory.probe = &maps.probe;
  loaded.model->logits(tape, {row.inputs.data(), 1, length(row.inputs)}, nullptr, nullptr, memory);
  return maps;
}

nlohmann::ordered_json texts_of(const LoadedRun& loaded, const std::vector<std::int32_t>& ids) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const std::int32_t id : ids) texts.push_back(std::string(loaded.tokenizer.token_bytes(id)));
  return texts;
}

std::string mixture_name(std::size_t i) { return "mix " + std::to_string(i + 1); }

void print_json(const LoadedRun& loaded, const Maps& maps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const std::size_t width = maps.columns();
  for (const auto& found : maps.probe.found) {
    QUERN_CHECK(found.weights.size() == maps.rows.size() * width, found.weights.size(), width);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (auto row = found.weights.begin(); row != found.weights.end(); row += std::ptrdiff_t(width))
      rows.push_back(std::vector<float>(row, row + std::ptrdiff_t(width)));
    list.push_back({{"layer", found.layer}, {"head", found.head}, {"weights", rows}});
  }
  nlohmann::ordered_json object = {{"step", loaded.step}, {"tokens", texts_of(loaded, maps.keys)}};
  if (maps.answer) object["answer"] = texts_of(loaded, maps.rows);
  if (maps.mixed())
    for (std::size_t i = 0; i < width; ++i) object["mixtures"].push_back(mixture_name(i));
  object["maps"] = list;
  write_json(object);
}

/// The names of the rows, and of the columns; mixtures have the last digits of their numbers, for a header
/// has one character a column.
HeatmapLabels labels_of(const LoadedRun& loaded, const Maps& maps, bool ascii) {
  const auto names = [&](const std::vector<std::int32_t>& ids) {
    std::vector<std::string> labels;
    for (const std::int32_t id : ids) labels.push_back(token_label(loaded.tokenizer.token_bytes(id), ascii));
    return labels;
  };
  if (!maps.mixed()) return {names(maps.rows), names(maps.keys)};
  HeatmapLabels labels = {names(maps.rows), {}};
  for (std::size_t i = 0; i < maps.columns(); ++i) labels.columns.push_back(std::to_string((i + 1) % 10));
  return labels;
}

void print_maps(const LoadedRun& loaded, const Maps& maps) {
  const Terminal terminal = inspect_terminal(STDOUT_FILENO);
  const HeatmapLabels labels = labels_of(loaded, maps, !terminal.utf8);
  const std::size_t n = maps.columns();
  if (const std::size_t shown = heatmap_size(labels, terminal); shown < n)
    say("the terminal is too narrow for " + std::to_string(n) + (maps.mixed() ? " mixtures" : " tokens") +
        ": the last " + std::to_string(shown) + " are shown");
  std::string what;
  if (maps.mixed())
    what = ": the columns are mixtures of all tokens, " + mixture_name(0) +
           (n > 1 ? " to " + mixture_name(n - 1) : "");
  for (const auto& found : maps.probe.found)
    write_out((&found == &maps.probe.found.front() ? "" : "\n") + std::string("layer ") +
              std::to_string(found.layer) + ", head " + std::to_string(found.head) + what + '\n' +
              heatmap(found.weights, labels, terminal));
}

/// The models that have attention to show, and tokens to name.
void require_attention(const LoadedRun& loaded) {
  const ModelConfig& model = loaded.config.model;
  if (model.architecture == Architecture::vit)
    throw Error(ErrorKind::config, "this run's model looks at patches of images, which have no names",
                "a run that reads text");
  if (model.architecture == Architecture::rnn && !model.reads_source)
    throw Error(ErrorKind::config, "this run's model is recurrent and has no attention",
                "a Transformer's run, or a recurrent one that answers questions");
}

int run(const AttentionCommandOptions& options) {
  set_thread_count(default_threads());
  Files files;
  const LoadedRun loaded = load_run(files, run_or_latest(options.run), options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  require_attention(loaded);
  const Maps maps = loaded.model->has_memory() ? look_at_question(loaded, options) : look(loaded, options);
  if (options.json)
    print_json(loaded, maps);
  else
    print_maps(loaded, maps);
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
  add_run_option(*command, options->run);
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  add_text(*command, "--prompt", options->prompt, "TEXT",
           "The text that the model reads; of a model that answers questions, the question")
      ->required();
  add_number(*command, "--layer", options->layer, at_least(0), "The layer, from 0; the last one by default");
  add_number(*command, "--head", options->head, at_least(0), "The head, from 0; all of the layer by default");
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
