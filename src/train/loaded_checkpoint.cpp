#include "quern/train/loaded_checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/crc32c.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/train/checkpoint_manifest.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxStateBytes = std::uint64_t{64} << 20;
constexpr std::size_t kStepDigits = 9;

void check_size(const fs::path& path, std::uint64_t size, std::uint64_t expected) {
  if (size == expected) return;
  fail_checkpoint(path, size < expected ? "the file ends at byte " + std::to_string(size) + " of " +
                                              std::to_string(expected)
                                        : "the file goes on after byte " + std::to_string(expected) +
                                              ", to byte " + std::to_string(size));
}

[[noreturn]] void fail_tensor(const fs::path& path, const safetensors::TensorInfo& tensor) {
  fail_checkpoint(path, "tensor \"" + tensor.name + "\", bytes " + std::to_string(tensor.begin) + " to " +
                            std::to_string(tensor.end) + ", does not match its checksum");
}

// "model.safetensors" has the prefix "model/" in the manifest.
std::string prefix_of(const char* file) { return fs::path(file).stem().string() + "/"; }

safetensors::Reader open_verified(Files& files, const fs::path& directory, const char* name,
                                  const CheckpointManifest& manifest) {
  const fs::path path = directory / name;
  const CheckpointManifest::File& expected = manifest.files.at(name);
  check_size(path, files.open_read(path, Links::refuse).size(), expected.size);
  safetensors::Reader reader(files, path, Links::refuse);
  const safetensors::Checksums sums = reader.checksums();
  const std::string prefix = prefix_of(name);
  for (const safetensors::TensorInfo& tensor : reader.tensors()) {
    const auto listed = manifest.tensors.find(prefix + tensor.name);
    if (listed == manifest.tensors.end()) {
      fail_checkpoint(path, "tensor \"" + tensor.name + "\" is not in the manifest");
    }
    if (sums.tensors.at(tensor.name) != listed->second) fail_tensor(path, tensor);
  }
  if (sums.file != expected.crc32c) fail_checkpoint(path, "its header does not match the file's checksum");
  for (const auto& [tensor, sum] : manifest.tensors) {
    if (tensor.starts_with(prefix) &&
        reader.find(std::string_view(tensor).substr(prefix.size())) == nullptr) {
      fail_checkpoint(path, "tensor \"" + tensor.substr(prefix.size()) + "\" is missing");
    }
  }
  return reader;
}

nlohmann::json read_state(Files& files, const fs::path& path, const CheckpointManifest::File& expected) {
  const std::string text = read_file(files, path, kMaxStateBytes, Links::refuse);
  check_size(path, text.size(), expected.size);
  if (crc32c(text.data(), text.size()) != expected.crc32c) {
    fail_checkpoint(path, "the file does not match its checksum");
  }
  parse_strict(text, path.string(), ErrorKind::file);  // no key twice, no more values than fit into memory
  nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) fail_checkpoint(path, "the file is not a JSON object");
  return state;
}

// Without a slash at the end, so that filename() is the directory's name.
}  // namespace

const safetensors::Reader& LoadedCheckpoint::model() const { return *model_; }

const safetensors::Reader& LoadedCheckpoint::optim() const {
  QUERN_CHECK(optim_.has_value(), path_);
  return *optim_;
}

void LoadedCheckpoint::read_model(std::span<const safetensors::TensorTarget> targets) const {
  read(model(), prefix_of(kModelFile), targets);
}

void LoadedCheckpoint::read_optim(std::span<const safetensors::TensorTarget> targets) const {
  read(optim(), prefix_of(kOptimFile), targets);
}

void LoadedCheckpoint::read(const safetensors::Reader& reader, const std::string& prefix,
                            std::span<const safetensors::TensorTarget> targets) const {
  reader.require(targets);
  for (const safetensors::TensorTarget& target : targets) {
    const safetensors::TensorInfo& tensor = *reader.find(target.name);
    reader.read(tensor, target.data, tensor.bytes());
    const std::uint32_t sum = crc32c(target.data, static_cast<std::size_t>(tensor.bytes()));
    if (sum != tensor_sums_.at(prefix + target.name)) fail_tensor(reader.path(), tensor);
  }
}

LoadedCheckpoint open_checkpoint(Files& files, const fs::path& path, CheckpointParts parts) {
  LoadedCheckpoint loaded;
  loaded.path_ = without_slash(path);
  std::error_code ignored;
  if (!fs::is_directory(loaded.path_, ignored)) {
    throw Error(ErrorKind::file, "no such checkpoint", "a checkpoint is a directory <run>/ckpt/step-…",
                loaded.path_.string());
  }
  const fs::path manifest_path = loaded.path_ / kManifestFile;
  if (files.kind(manifest_path) == EntryKind::missing) {
    throw Error(ErrorKind::file, "the directory is no whole checkpoint: it has no manifest.json",
                "a checkpoint is a directory <run>/ckpt/step-…", loaded.path_.string());
  }
  CheckpointManifest manifest =
      parse_manifest(read_file(files, manifest_path, kMaxManifestBytes, Links::refuse), manifest_path);
  loaded.step_ = manifest.step;
  const std::optional<std::int64_t> named = checkpoint_step(loaded.path_.filename().string());
  if (named && *named != manifest.step) {
    fail_checkpoint(manifest_path, "it is of step " + std::to_string(manifest.step) + ", not of " +
                                       std::to_string(*named) + " as the directory's name says");
  }
  loaded.state_ = read_state(files, loaded.path_ / kStateFile, manifest.files.at(kStateFile));
  loaded.model_ = open_verified(files, loaded.path_, kModelFile, manifest);
  if (parts == CheckpointParts::all) {
    loaded.optim_ = open_verified(files, loaded.path_, kOptimFile, manifest);
  }
  loaded.tensor_sums_ = std::move(manifest.tensors);
  return loaded;
}

std::string checkpoint_name(std::int64_t step) {
  QUERN_CHECK(step >= 0, step);
  const std::string digits = std::to_string(step);
  return "step-" + std::string(kStepDigits - std::min(kStepDigits, digits.size()), '0') + digits;
}

std::optional<std::int64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 5, end, step);
  if (error != std::errc{} || stop != end || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::optional<fs::path> run_of_checkpoint(const fs::path& path) {
  fs::path normal = without_slash(path.lexically_normal());
  if (!checkpoint_step(normal.filename().string())) return std::nullopt;
  // As it was typed, where that names the run too.
  if (normal.parent_path().parent_path().empty()) normal = fs::absolute(normal);
  if (normal.parent_path().filename() != "ckpt") return std::nullopt;
  return normal.parent_path().parent_path();
}

}  // namespace quern
