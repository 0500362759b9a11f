#include "quern/train/checkpoint_manifest.hpp"

#include <charconv>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/crc32c.hpp"
#include "quern/base/strict_json.hpp"

namespace quern {
namespace {

using nlohmann::json;

constexpr std::uint64_t kVersion = 1;
constexpr std::string_view kOpening = "{\"manifest_crc32c\":";

[[noreturn]] void fail_manifest(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::file, "the manifest of the checkpoint is damaged: " + what, {}, path.string());
}

// An unsigned integer of at most `max`.
std::uint64_t number_of(const json& value, std::uint64_t max, const std::filesystem::path& path) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    fail_manifest(path, "a number is missing or out of range");
  }
  return value.get<std::uint64_t>();
}

std::uint32_t checksum_of(const json& value, const std::filesystem::path& path) {
  return static_cast<std::uint32_t>(number_of(value, std::numeric_limits<std::uint32_t>::max(), path));
}

// An object with exactly these keys.
void require_keys(const json& object, std::initializer_list<const char*> keys,
                  const std::filesystem::path& path) {
  bool good = object.is_object() && object.size() == keys.size();
  for (const char* key : keys) good = good && object.contains(key);
  if (!good) fail_manifest(path, "its fields are not those of a manifest");
}

// Holds the text behind the first comma against the checksum before it.
void check_own_checksum(std::string_view text, const std::filesystem::path& path) {
  if (!text.starts_with(kOpening)) fail_manifest(path, "it does not begin with its checksum");
  const std::string_view rest = text.substr(kOpening.size());
  const std::string_view digits = rest.substr(0, rest.find(','));
  std::uint32_t expected = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), expected);
  if (error != std::errc{} || std::to_string(expected) != digits || digits.size() == rest.size()) {
    fail_manifest(path, "it does not begin with its checksum");
  }
  const std::string_view body = rest.substr(digits.size() + 1);
  if (crc32c(body.data(), body.size()) != expected) fail_manifest(path, "its checksum does not match");
}

}  // namespace

std::string render_manifest(const CheckpointManifest& manifest) {
  // An object before it gets fields: null that becomes one by operator[] is destroyed as one, which it is not
  // yet, when memory runs out between (nlohmann/json 3.11).
  json files = json::object();
  for (const auto& [file, entry] : manifest.files)
    files[file] = json{{"size", entry.size}, {"crc32c", entry.crc32c}};
  const json object = {{"version", kVersion},
                       {"step", manifest.step},
                       {"tensors", manifest.tensors},
                       {"files", std::move(files)}};
  const std::string body = object.dump(2).substr(1) + "\n";
  return std::string(kOpening) + std::to_string(crc32c(body.data(), body.size())) + "," + body;
}

CheckpointManifest parse_manifest(const std::string& text, const std::filesystem::path& path) {
  check_own_checksum(text, path);
  try {
    parse_strict(text, path.string(), ErrorKind::file);  // no key twice, no more values than fit into memory
  } catch (const Error& error) {
    fail_manifest(path, error.what());
  }
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("version")) fail_manifest(path, "it is not JSON of a manifest");
  const std::uint64_t version = number_of(object["version"], std::numeric_limits<std::uint64_t>::max(), path);
  if (version != kVersion) {
    throw OtherFormat(ErrorKind::file,
                      "the checkpoint has format version " + std::to_string(version) +
                          "; this program reads version " + std::to_string(kVersion),
                      "use the version of quern that wrote it", path.string());
  }
  require_keys(object, {"manifest_crc32c", "version", "step", "files", "tensors"}, path);
  require_keys(object["files"], {kModelFile, kOptimFile, kStateFile}, path);
  if (!object["tensors"].is_object()) fail_manifest(path, "its fields are not those of a manifest");

  constexpr auto kMaxSize = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  CheckpointManifest manifest;
  manifest.step = static_cast<std::int64_t>(number_of(object["step"], kMaxSize, path));
  for (const auto& [file, entry] : object["files"].items()) {
    require_keys(entry, {"size", "crc32c"}, path);
    manifest.files[file] = {number_of(entry["size"], kMaxSize, path), checksum_of(entry["crc32c"], path)};
  }
  for (const auto& [tensor, sum] : object["tensors"].items()) {
    manifest.tensors[tensor] = checksum_of(sum, path);
  }
  return manifest;
}

void fail_checkpoint(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::file, "the checkpoint is damaged: " + what,
              "name another checkpoint; --resume auto and --checkpoint last take the newest intact one",
              path.string());
}

}  // namespace quern
