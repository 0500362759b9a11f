// manifest.json of a checkpoint: what must lie beside it, byte for byte. It is written last and guards itself
// too:
//   {"manifest_crc32c":2351867912,
//     "files": {"model.safetensors": {"crc32c": 17, "size": 4096}, …},
//     "step": 20, "tensors": {"model/wte.weight": 99, …}, "version": 1}
// manifest_crc32c is the CRC-32C of every byte behind the first comma.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "quern/base/check.hpp"

namespace quern {

/// The files of a checkpoint besides manifest.json.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimFile = "optim.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";

struct CheckpointManifest {
  struct File {
    std::uint64_t size = 0;
    std::uint32_t crc32c = 0;
  };
  std::int64_t step = 0;
  std::map<std::string, File> files;
  std::map<std::string, std::uint32_t> tensors;  // "model/<name>" and "optim/<name>"
};

std::string render_manifest(const CheckpointManifest& manifest);

/// A checkpoint of a format that this program does not know. It is not damaged: nobody goes back behind it.
class OtherFormat : public Error {
 public:
  using Error::Error;
};

/// Throws ErrorKind::file for anything that render_manifest did not write, OtherFormat for another version;
/// `path` stands in messages.
CheckpointManifest parse_manifest(const std::string& text, const std::filesystem::path& path);

/// Throws Error(file): the file `path` of a checkpoint is damaged, and how.
[[noreturn]] void fail_checkpoint(const std::filesystem::path& path, const std::string& what);

}  // namespace quern
