#include "quern/train/checkpoint_store.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/crc32c.hpp"
#include "quern/base/durable.hpp"
#include "quern/train/checkpoint_manifest.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrash = ".trash";

bool is_ours(std::string_view name) {
  return name == kModelFile || name == kOptimFile || name == kStateFile || name == kManifestFile;
}

std::string trash_name(std::string_view stem) {
  return std::string(kTrash) + temporary_name(stem).substr(std::string_view(".tmp").size());
}

bool is_trash_name(std::string_view name) {
  return name.starts_with(kTrash) && is_temporary_name(".tmp" + std::string(name.substr(kTrash.size())));
}

// The text of state.json; a number that is not finite would come back as null.
std::string render_state(const nlohmann::json& state) {
  QUERN_CHECK(state.is_object());
  std::string text = state.dump(2) + "\n";
  QUERN_CHECK(nlohmann::json::parse(text) == state);
  return text;
}

/// What the file "latest" says.
std::string latest_text(std::int64_t step) { return "ckpt/" + checkpoint_name(step) + "\n"; }

}  // namespace

CheckpointStore::CheckpointStore(Files& files, fs::path run_directory)
    : files_(files), run_(std::move(run_directory)), directory_(run_ / "ckpt") {}

fs::path CheckpointStore::path_of(std::int64_t step) const { return directory_ / checkpoint_name(step); }

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> found;
  if (files_.kind(directory_) == EntryKind::missing) return found;
  for (const DirectoryEntry& entry : files_.list(directory_)) {
    const std::optional<std::int64_t> step = checkpoint_step(entry.name);
    if (step && entry.kind == EntryKind::directory) found.push_back(*step);
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

void CheckpointStore::clean() {
  for (const fs::path& place : {run_, directory_}) {
    if (files_.kind(place) == EntryKind::missing) return;
    for (const DirectoryEntry& entry : files_.list(place)) {
      if (entry.kind == EntryKind::file && is_temporary_name(entry.name))
        files_.remove_file(place / entry.name);
    }
  }
  for (const DirectoryEntry& entry : files_.list(directory_)) {
    const bool leftover = is_temporary_name(entry.name) || is_trash_name(entry.name);
    if (leftover && entry.kind == EntryKind::directory) remove_leftover(directory_ / entry.name);
  }
}

void CheckpointStore::remove_leftover(const fs::path& directory) {
  files_.remove_flat_directory(directory, is_ours);
}

bool CheckpointStore::is_intact(std::int64_t step) {
  const auto known = checked_.find(step);
  if (known != checked_.end()) return known->second;
  bool intact = true;
  try {
    open_checkpoint(files_, path_of(step));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::file) throw;
    intact = false;
  }
  return checked_[step] = intact;
}

fs::path CheckpointStore::save(const CheckpointData& data) {
  const fs::path target = path_of(data.step);
  files_.check_guard(target);  // else one of that step in another run's directory would pass for this one
  if (files_.kind(target) != EntryKind::missing && is_intact(data.step)) return target;
  if (files_.make_directory(directory_)) files_.sync_directory(run_);
  const fs::path temporary = directory_ / temporary_name(checkpoint_name(data.step));
  try {
    files_.make_directory(temporary);
    write_contents(temporary, data);
    commit(temporary, data.step);
  } catch (const Error&) {
    try {
      if (files_.kind(temporary) == EntryKind::directory) remove_leftover(temporary);
    } catch (const Error&) {
      // The first error is the one to tell; clean() comes back to the rest.
    }
    throw;
  }
  checked_[data.step] = true;
  point_latest_to(data.step);
  return target;
}

void CheckpointStore::write_contents(const fs::path& directory, const CheckpointData& data) {
  const safetensors::Writer model(data.model);
  const safetensors::Writer optim(data.optim);
  const std::string state = render_state(data.state);

  // All space is reserved before anything is written.
  const auto reserve = [&](const char* name, std::uint64_t bytes) {
    File file = files_.create(directory / name);
    file.preallocate(bytes);
    return file;
  };
  File model_file = reserve(kModelFile, model.size());
  File optim_file = reserve(kOptimFile, optim.size());
  File state_file = reserve(kStateFile, state.size());
  const auto finish = [](File& file) {
    file.sync();
    file.close();
  };

  CheckpointManifest manifest;
  manifest.step = data.step;
  const auto write_tensors = [&](const safetensors::Writer& writer, File& file, const char* name,
                                 const std::string& prefix) {
    const safetensors::Checksums sums = writer.write(file);
    finish(file);
    manifest.files[name] = {writer.size(), sums.file};
    for (const auto& [tensor, sum] : sums.tensors) manifest.tensors[prefix + tensor] = sum;
  };
  write_tensors(model, model_file, kModelFile, "model/");
  write_tensors(optim, optim_file, kOptimFile, "optim/");
  state_file.write(state);
  finish(state_file);
  manifest.files[kStateFile] = {state.size(), crc32c(state.data(), state.size())};

  const std::string text = render_manifest(manifest);
  File manifest_file = reserve(kManifestFile, text.size());
  manifest_file.write(text);
  finish(manifest_file);
  files_.sync_directory(directory);
}

void CheckpointStore::commit(const fs::path& temporary, std::int64_t step) {
  const fs::path target = path_of(step);
  std::optional<fs::path> damaged;
  if (files_.kind(target) != EntryKind::missing) {
    damaged = directory_ / trash_name(checkpoint_name(step));
    files_.rename_new(target, *damaged);
  }
  files_.rename_new(temporary, target);
  files_.sync_directory(directory_);
  if (damaged) remove_leftover(*damaged);
}

void CheckpointStore::point_latest_to(std::int64_t step) {
  replace_file_durably(files_, run_ / "latest", latest_text(step));
}

void CheckpointStore::delete_steps(const std::vector<std::int64_t>& doomed) {
  if (doomed.empty()) return;
  std::vector<fs::path> trash;
  for (const std::int64_t step : doomed) {
    trash.push_back(directory_ / trash_name(checkpoint_name(step)));
    files_.rename_new(path_of(step), trash.back());
    checked_.erase(step);
  }
  // Durable before the first file goes, so that no loss of power brings back a name step-… with files
  // missing.
  files_.sync_directory(directory_);
  for (const fs::path& path : trash) remove_leftover(path);
}

void CheckpointStore::prune(std::int64_t keep, std::optional<std::int64_t> best) {
  std::int64_t wanted = std::max<std::int64_t>(keep, 2);
  std::vector<std::int64_t> doomed;
  for (const std::int64_t step : steps()) {
    if (wanted == 0) {
      if (step != best) doomed.push_back(step);
    } else if (is_intact(step)) {
      --wanted;
    }
  }
  delete_steps(doomed);
}

void CheckpointStore::discard_after(std::int64_t step) {
  std::vector<std::int64_t> doomed = steps();
  std::erase_if(doomed, [&](std::int64_t other) { return other <= step; });
  if (!latest_is(step)) point_latest_to(step);  // first: it never names what is gone
  delete_steps(doomed);
}

// A run may have ended between a checkpoint's rename and this file's.
bool CheckpointStore::latest_is(std::int64_t step) const {
  const fs::path latest = run_ / "latest";
  return files_.kind(latest) == EntryKind::file && read_file(files_, latest, 4096) == latest_text(step);
}

void CheckpointStore::discard_all() {
  delete_steps(steps());
  if (files_.kind(directory_) == EntryKind::directory && files_.list(directory_).empty()) {
    files_.remove_empty_directory(directory_);
  }
}

CheckpointStore::Found CheckpointStore::find_latest(CheckpointParts parts) {
  Found found;
  std::optional<Error> newest;
  for (const std::int64_t step : steps()) {
    try {
      found.checkpoint = open_checkpoint(files_, path_of(step), parts);
      if (parts == CheckpointParts::all) checked_[step] = true;
      return found;
    } catch (const OtherFormat&) {
      throw;  // a newer quern's: whoever goes on from an older one deletes it
    } catch (const Error& error) {
      // What the system keeps from us may be whole, and whoever resumes from an older one deletes it.
      if (error.kind != ErrorKind::file) {
        throw Error(error.kind, error.what(),
                    "if it cannot be read, name an older checkpoint of the run instead", error.place);
      }
      if (!newest) newest = error;
      found.warnings.push_back("passed over " + path_of(step).string() + ": " + one_line(error));
    }
  }
  if (newest) {
    throw Error(newest->kind,
                std::string("no checkpoint of the run is intact; of the newest: ") + newest->what(),
                "to start again, give another --run-dir or --overwrite", newest->place);
  }
  return found;
}

}  // namespace quern
