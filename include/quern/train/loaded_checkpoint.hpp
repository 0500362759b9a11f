// Reading one checkpoint: verified as a whole when it is opened, and each tensor again as it is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quern/base/files.hpp"
#include "quern/io/safetensors.hpp"

namespace quern {

/// Which parts are verified and may be read; the state always is.
enum class CheckpointParts { all, model };

/// A verified checkpoint, open for reading.
class LoadedCheckpoint {
 public:
  std::int64_t step() const { return step_; }
  const nlohmann::json& state() const { return state_; }
  const std::filesystem::path& path() const { return path_; }
  const safetensors::Reader& model() const;
  const safetensors::Reader& optim() const;

  /// Fills all targets; each tensor's checksum is held against the manifest as it is read. ErrorKind::file
  /// unless the file holds exactly these names, dtypes and shapes (nothing is filled then).
  void read_model(std::span<const safetensors::TensorTarget> targets) const;
  void read_optim(std::span<const safetensors::TensorTarget> targets) const;

 private:
  friend LoadedCheckpoint open_checkpoint(Files&, const std::filesystem::path&, CheckpointParts);
  LoadedCheckpoint() = default;
  void read(const safetensors::Reader& reader, const std::string& prefix,
            std::span<const safetensors::TensorTarget> targets) const;

  std::filesystem::path path_;
  std::int64_t step_ = 0;
  nlohmann::json state_;
  std::optional<safetensors::Reader> model_;
  std::optional<safetensors::Reader> optim_;
  std::map<std::string, std::uint32_t> tensor_sums_;  // "model/<name>", "optim/<name>"
};

/// Verifies one checkpoint directory (manifest, names, sizes, checksums, headers) and opens it.
/// ErrorKind::file, naming the file and what is wrong, for one that is missing, damaged, no checkpoint or of
/// a newer version.
LoadedCheckpoint open_checkpoint(Files& files, const std::filesystem::path& path,
                                 CheckpointParts parts = CheckpointParts::all);

/// "step-000000020" and back; nullopt for any other name.
std::string checkpoint_name(std::int64_t step);
std::optional<std::int64_t> checkpoint_step(std::string_view name);

/// The run of a path <run>/ckpt/step-…; nullopt for a path of another form. Looks at the path only.
std::optional<std::filesystem::path> run_of_checkpoint(const std::filesystem::path& path);

}  // namespace quern
