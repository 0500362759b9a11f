// quern inspect
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "quern/base/suggest.hpp"
#include "quern/data/text_facts.hpp"
#include "quern/text/tokenizer.hpp"
#include "quern/train/inspect.hpp"
#include "quern/train/run_list.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/table.hpp"
#include "quern/watch/terminal.hpp"
#include "run_json.hpp"

namespace quern::cli {

namespace {

namespace st = safetensors;
using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string path;
  bool json = false;
};

/// What is said of a path: an object for programs, lines for people.
struct Description {
  Json object;
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;
  Table table;  // none without rows
};

std::string number(std::uint64_t value) { return grouped(static_cast<std::int64_t>(value)); }

std::string counted(std::uint64_t count, const std::string& word) {
  return number(count) + " " + word + (count == 1 ? "" : "s");
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return Json(shape).dump(); }

Description of_run(Files& files, const std::string& path) {
  const ListedRun run = look_at_run(files, path);
  for (const std::string& problem : run.problems) say("warning: the run is damaged: " + problem);
  Description out{run_json(run), "run " + run.name + ": " + run.status, {}, {}};
  if (run.summary) {
    const RunSummary& summary = *run.summary;
    out.facts.emplace_back("steps", grouped(summary.step) +
                                        (summary.max_steps ? " of " + grouped(*summary.max_steps) : "") +
                                        ", " + counted(static_cast<std::uint64_t>(summary.tokens), "token") +
                                        " in " + duration(summary.seconds));
    out.facts.emplace_back("best val loss", best_text(summary));
    if (summary.train_loss) out.facts.emplace_back("train loss", fixed(*summary.train_loss, 4));
    if (summary.parameters) out.facts.emplace_back("parameters", grouped(*summary.parameters));
  }
  if (run.config) {
    const ModelConfig& model = run.config->model;
    out.facts.emplace_back(
        "model", std::string(enum_name(model.architecture)) + ", d_model " + grouped(model.d_model) + ", " +
                     grouped(model.n_layers) + " layers, " + grouped(model.n_heads) + " heads, context " +
                     grouped(model.context_length) + ", vocabulary " + grouped(model.vocab_size));
  }
  Json checkpoints = Json::array();
  out.table.columns = {{"checkpoint", false}, {"bytes", true}, {"state", false}};
  for (const CheckedCheckpoint& each : check_checkpoints(files, path)) {
    const bool best = run.summary && run.summary->best && run.summary->best->step == each.step;
    checkpoints.push_back({{"step", each.step},
                           {"path", each.path},
                           {"bytes", each.bytes},
                           {"intact", each.problem.empty()},
                           {"best", best}});
    if (!each.problem.empty()) {
      checkpoints.back()["problem"] = each.problem;
      say("warning: " + each.path + " is damaged: " + each.problem);
    }
    out.table.rows.push_back(
        {each.path, number(each.bytes),
         std::string(each.problem.empty() ? "intact" : "damaged") + (best ? ", best" : "")});
  }
  if (checkpoints.empty()) out.facts.emplace_back("checkpoints", "none yet");
  out.object["checkpoints"] = std::move(checkpoints);
  return out;
}

/// What a checkpoint's state says that a person may ask for.
void add_state(Description& out, const nlohmann::json& state) {
  const auto best = state.find("best");
  if (best != state.end() && best->is_object() && best->contains("loss") && best->contains("step"))
    out.facts.emplace_back("best before",
                           "val loss " + (*best)["loss"].dump() + " at step " + (*best)["step"].dump());
  for (const char* name : {"tokens", "seed", "corpus", "tokenizer"}) {
    const auto found = state.find(name);
    if (found == state.end()) continue;
    out.facts.emplace_back(name, found->is_string() ? found->get<std::string>() : found->dump());
  }
}

Description of_checkpoint(Files& files, const std::string& path) {
  const CheckpointFacts facts = describe_checkpoint(files, path);
  Description out{{{"step", facts.step}, {"intact", true}},
                  "checkpoint of step " + grouped(facts.step) + ": intact, " + counted(facts.bytes, "byte"),
                  {},
                  {}};
  if (facts.val_loss)
    out.facts.emplace_back("val loss", fixed(*facts.val_loss, 4) + (facts.best ? ", best of the run" : ""));
  out.object["val_loss"] = facts.val_loss ? Json(*facts.val_loss) : Json();
  out.object["best"] = facts.best;
  out.facts.emplace_back("parameters", number(facts.model.elements));
  out.object["parameters"] = facts.model.elements;
  out.object["bytes"] = facts.bytes;
  out.object["files"] = Json::array();
  for (const TensorFile& file : {facts.model, facts.optim}) {
    out.facts.emplace_back(file.name, counted(file.tensors, "tensor") + ", " +
                                          counted(file.elements, "number") + ", " +
                                          counted(file.bytes, "byte"));
    out.object["files"].push_back(
        {{"name", file.name}, {"tensors", file.tensors}, {"elements", file.elements}, {"bytes", file.bytes}});
  }
  add_state(out, facts.state);
  out.object["state"] = facts.state;
  out.object["tensors"] = Json::array();
  out.table.columns = {
      {"tensor", false}, {"dtype", false}, {"shape", false}, {"tensors", true}, {"numbers", true}};
  for (const st::TensorGroup& group : facts.groups) {
    const std::string dtype(st::name(group.dtype));
    out.table.rows.push_back(
        {group.name, dtype, shape_text(group.shape), number(group.tensors), number(group.elements)});
    out.object["tensors"].push_back({{"name", group.name},
                                     {"dtype", dtype},
                                     {"shape", group.shape},
                                     {"tensors", group.tensors},
                                     {"elements", group.elements}});
  }
  return out;
}

void add_tensor(Description& out, const st::Reader& reader, const st::TensorInfo& tensor) {
  const std::string dtype(st::name(tensor.dtype));
  const std::uint64_t count = st::element_count(tensor);
  Json object = {{"name", tensor.name},
                 {"dtype", dtype},
                 {"shape", tensor.shape},
                 {"count", count},
                 {"bytes", tensor.bytes()}};
  std::vector<std::string> row = {tensor.name, dtype, shape_text(tensor.shape), number(count),
                                  number(tensor.bytes())};
  const auto found = st::statistics(reader, tensor);
  const auto add = [&](const char* name, double st::TensorStatistics::*value) {
    object[name] = found ? Json((*found).*value) : Json();
    row.push_back(found && count > found->nonfinite ? scientific((*found).*value, 3) : "-");
  };
  add("min", &st::TensorStatistics::min);
  add("max", &st::TensorStatistics::max);
  add("mean", &st::TensorStatistics::mean);
  add("std", &st::TensorStatistics::std);
  object["nonfinite"] = found ? Json(found->nonfinite) : Json();
  row.push_back(found ? number(found->nonfinite) : "-");
  out.object["tensors"].push_back(std::move(object));
  out.table.rows.push_back(std::move(row));
}

Description of_safetensors(Files& files, const std::string& path) {
  const st::Reader reader(files, path);
  std::uint64_t elements = 0;
  for (const st::TensorInfo& tensor : reader.tensors()) elements += st::element_count(tensor);
  Description out{{{"bytes", reader.file_size()},
                   {"elements", elements},
                   {"metadata", reader.metadata()},
                   {"tensors", Json::array()}},
                  "safetensors: " + counted(reader.tensors().size(), "tensor") + ", " +
                      counted(elements, "number") + ", " + counted(reader.file_size(), "byte"),
                  {},
                  {}};
  for (const auto& [key, value] : reader.metadata()) out.facts.emplace_back("metadata " + key, value);
  out.table.columns = {{"tensor", false}, {"dtype", false},   {"shape", false}, {"count", true},
                       {"bytes", true},   {"min", true},      {"max", true},    {"mean", true},
                       {"std", true},     {"nonfinite", true}};
  for (const st::TensorInfo& tensor : reader.tensors()) add_tensor(out, reader, tensor);
  return out;
}

/// The first tokens and the last ones, each in quotes.
std::string tokens_in_short(const Tokenizer& tokenizer) {
  constexpr int shown = 8;
  const int n = tokenizer.vocab_size();
  std::string text;
  for (int id = 0; id < n; ++id) {
    if (n > 2 * shown && id == shown) {
      text += " ...";
      id = n - shown;
    }
    text += (id == 0 ? "" : " ") + in_quotes(tokenizer.token_bytes(id));
  }
  return text;
}

Description of_tokenizer(const std::string& path) {
  const Tokenizer tokenizer = Tokenizer::load(path);
  Description out{{{"tokenizer", tokenizer.name()},
                   {"vocab_size", tokenizer.vocab_size()},
                   {"fingerprint", tokenizer.fingerprint()}},
                  std::string(tokenizer.name()) + " tokenizer of " +
                      counted(static_cast<std::uint64_t>(tokenizer.vocab_size()), "token"),
                  {{"tokens", tokens_in_short(tokenizer)}, {"fingerprint", tokenizer.fingerprint()}},
                  {}};
  if (tokenizer.kind() == Tokenizer::Kind::byte) return out;  // not all of its tokens are text
  out.object["tokens"] = Json::array();
  for (int id = 0; id < tokenizer.vocab_size(); ++id)
    out.object["tokens"].push_back(tokenizer.token_bytes(id));
  return out;
}

Description of_text(Files& files, const std::string& path) {
  const TextFacts facts = describe_text(files, path);
  Description out{{{"bytes", facts.bytes}, {"lines", facts.lines}, {"utf8", !facts.invalid}},
                  "text of " + counted(facts.bytes, "byte"),
                  {{"lines", number(facts.lines)}},
                  {}};
  if (facts.invalid) {
    const TextFacts::Invalid& at = *facts.invalid;
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned>(at.byte));
    out.facts.emplace_back("UTF-8", std::string("no: ") + byte + " at byte " + std::to_string(at.offset) +
                                        ", line " + std::to_string(at.at.line) + ", column " +
                                        std::to_string(at.at.column));
    out.object["invalid"] = {
        {"byte", at.byte}, {"offset", at.offset}, {"line", at.at.line}, {"column", at.at.column}};
    out.object["distinct_characters"] = nullptr;
    out.facts.emplace_back("byte tokens", number(facts.bytes));
    out.facts.emplace_back("char tokens", "none: a char tokenizer reads UTF-8");
  } else {
    out.facts.emplace_back("UTF-8", "valid, " + number(facts.distinct) + " distinct characters");
    out.object["distinct_characters"] = facts.distinct;
    out.facts.emplace_back("byte tokens", number(facts.bytes));
    out.facts.emplace_back("char tokens", number(facts.characters));
  }
  out.object["byte_tokens"] = facts.bytes;
  out.object["char_tokens"] = facts.invalid ? Json() : Json(facts.characters);
  out.facts.emplace_back("fingerprint", facts.fingerprint);
  out.object["fingerprint"] = facts.fingerprint;
  return out;
}

std::pair<const char*, Description> describe(Files& files, const std::string& path) {
  switch (path_kind(files, path)) {
    case PathKind::checkpoint: return {"checkpoint", of_checkpoint(files, path)};
    case PathKind::run: return {"run", of_run(files, path)};
    case PathKind::safetensors: return {"safetensors", of_safetensors(files, path)};
    case PathKind::tokenizer: return {"tokenizer", of_tokenizer(path)};
    case PathKind::text: break;
  }
  return {"text", of_text(files, path)};
}

std::string lines_of(const Description& description) {
  const Terminal terminal = inspect_terminal(STDOUT_FILENO);
  Table facts;
  facts.columns = {{"", false}, {"", false}};
  for (const auto& [label, value] : description.facts) facts.rows.push_back({"  " + label, value});
  std::string text = harmless(description.title, !terminal.utf8) + "\n" + draw(facts, 0, !terminal.utf8);
  // In a pipe names stay whole.
  if (!description.table.rows.empty())
    text += "\n" + draw(description.table, terminal.tty ? terminal.width : 0, !terminal.utf8);
  return text;
}

int run(const InspectOptions& options) {
  Files files;
  auto [kind, description] = describe(files, options.path);
  if (!options.json) {
    write_out(lines_of(description));
    return 0;
  }
  Json object = {{"kind", kind}, {"path", options.path}};
  object.update(description.object);
  write_json(object);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      add_command(app, "inspect", "Say what a checkpoint, run, tokenizer, safetensors or text file holds",
                  {"quern inspect runs/latest", "quern inspect runs/latest/ckpt/step-000002000",
                   "quern inspect data/toy.txt --json"},
                  [options] { return run(*options); });
  add_text(*command, "path", options->path, "PATH", "A directory or a file")->required();
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
