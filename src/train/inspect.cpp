#include "quern/train/inspect.hpp"

#include <numeric>
#include <system_error>
#include <variant>

#include "quern/base/check.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/text/tokenizer.hpp"
#include "quern/train/checkpoint_manifest.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/watch/metrics.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerName = "tokenizer.json";

PathKind directory_kind(Files& files, const fs::path& path) {
  const bool checkpoint = checkpoint_step(without_slash(path).filename().string()).has_value() ||
                          files.kind(path / kManifestFile) == EntryKind::file;
  if (checkpoint) return PathKind::checkpoint;
  if (directory_state(files, path) == DirectoryState::run) return PathKind::run;
  throw Error(ErrorKind::file, "the directory holds neither a run nor a checkpoint",
              "name a run, a checkpoint <run>/ckpt/step-… or a file; `quern runs ls " + path.string() +
                  "` lists the runs in it",
              path.string());
}

PathKind json_kind(Files& files, const fs::path& path, std::uint64_t bytes) {
  if (bytes > Tokenizer::max_file_bytes) return PathKind::text;
  const std::string text = read_file(files, path, Tokenizer::max_file_bytes);
  try {
    const JsonDocument json = parse_strict(text, path.string(), ErrorKind::file);
    const Json* type = json.root.find("type");
    const auto* name = type == nullptr ? nullptr : std::get_if<std::string>(&type->value);
    return name != nullptr && name->starts_with("quern-") ? PathKind::tokenizer : PathKind::text;
  } catch (const Error&) {
    return path.filename() == kTokenizerName ? PathKind::tokenizer : PathKind::text;
  }
}

/// Bytes of the files in a directory.
std::uint64_t bytes_in(Files& files, const fs::path& directory) {
  std::uint64_t bytes = 0;
  for (const DirectoryEntry& entry : files.list(directory)) {
    if (entry.kind == EntryKind::file) bytes += files.open_read(directory / entry.name).size();
  }
  return bytes;
}

TensorFile facts_of(const safetensors::Reader& reader) {
  TensorFile file{reader.path().filename().string(), reader.file_size(), reader.tensors().size(), 0};
  for (const safetensors::TensorInfo& tensor : reader.tensors())
    file.elements += safetensors::element_count(tensor);
  return file;
}

/// The evaluation of the weights of a checkpoint, which is saved before it.
void add_evaluation(CheckpointFacts& facts, const fs::path& checkpoint) {
  const std::optional<fs::path> run = run_of_checkpoint(checkpoint);
  if (!run) return;
  try {
    const Metrics metrics = read_run(run->string());
    const EvalEvent* best = best_evaluation(metrics);
    for (const EvalEvent& eval : metrics.evals) {
      if (eval.step != facts.step || eval.split != "val") continue;
      facts.val_loss = eval.loss;
      facts.best = &eval == best;
    }
  } catch (const Error&) {
    // The checkpoint is what is described; `inspect` on the run tells.
  }
}

}  // namespace

PathKind path_kind(Files& files, const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return directory_kind(files, path);
  if (files.kind(path) == EntryKind::missing) {
    throw Error(ErrorKind::file, "there is nothing here",
                "name a run, a checkpoint, a .safetensors file, a tokenizer.json or a text", path.string());
  }
  const std::uint64_t bytes = files.open_read(path).size();
  if (path.extension() == ".safetensors") return PathKind::safetensors;
  if (path.extension() == ".json") return json_kind(files, path, bytes);
  return PathKind::text;
}

CheckpointFacts describe_checkpoint(Files& files, const fs::path& path) {
  const LoadedCheckpoint checkpoint = open_checkpoint(files, path);
  CheckpointFacts facts;
  facts.step = checkpoint.step();
  facts.bytes = bytes_in(files, checkpoint.path());
  facts.model = facts_of(checkpoint.model());
  facts.optim = facts_of(checkpoint.optim());
  facts.groups = safetensors::grouped(checkpoint.model().tensors());
  facts.state = checkpoint.state();
  add_evaluation(facts, checkpoint.path());
  return facts;
}

std::vector<CheckedCheckpoint> check_checkpoints(Files& files, const fs::path& run) {
  const CheckpointStore store(files, run);
  std::vector<CheckedCheckpoint> found;
  for (const std::int64_t step : store.steps()) {
    const fs::path path = store.path_of(step);
    CheckedCheckpoint checkpoint{step, "ckpt/" + path.filename().string(), 0, {}};
    try {
      checkpoint.bytes = bytes_in(files, path);
      open_checkpoint(files, path);
    } catch (const Error& error) {
      if (files.kind(path) == EntryKind::missing) continue;  // a running trainer keeps only some
      checkpoint.problem = one_line(error);
    }
    found.push_back(std::move(checkpoint));
  }
  return found;
}

}  // namespace quern
