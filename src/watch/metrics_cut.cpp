#include "quern/watch/metrics_cut.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "quern/base/check.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/watch/metrics.hpp"

namespace quern {
namespace {

constexpr std::string_view step_line = "{\"event\":\"step\",";
constexpr std::uint64_t piece = 1 << 16;

std::string text_of(const File& file, std::uint64_t begin, std::uint64_t end) {
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  file.read_at(begin, text.data(), text.size());
  return text;
}

/// The step of a step's line at the begin of `text`; nullopt when that is none.
std::optional<std::int64_t> step_of(std::string_view text) {
  try {
    const JsonDocument line = parse_strict(text.substr(0, text.find('\n')), "", ErrorKind::file);
    const Json* step = line.root.find("step");
    const auto* number = step == nullptr ? nullptr : std::get_if<std::uint64_t>(&step->value);
    return number == nullptr ? std::nullopt : std::optional(static_cast<std::int64_t>(*number));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The last step that is told before `end`: 0 when none is, nullopt when its line is damaged. Pieces are read
/// from behind, so that it costs the same however long the run.
std::optional<std::int64_t> last_step(const File& file, std::uint64_t end) {
  for (std::uint64_t begin = end; begin > 0;) {
    const std::uint64_t behind = std::min(begin + step_line.size(), end);
    begin -= std::min(begin, piece);
    const std::string text = text_of(file, begin, behind);
    std::size_t at = text.rfind("\n" + std::string(step_line));
    if (at != std::string::npos) {
      ++at;
    } else if (begin == 0 && text.starts_with(step_line)) {
      at = 0;
    } else {
      continue;
    }
    const std::uint64_t line = begin + at;
    return step_of(text_of(file, line, std::min(line + piece, end)));
  }
  return 0;
}

/// Whether the file is what a checkpoint of `step` recorded, as far as can be seen without reading all of it.
bool fits(const File& file, std::int64_t offset, std::int64_t step) {
  const auto bytes = static_cast<std::uint64_t>(offset);
  if (file.size() < bytes || text_of(file, bytes - 1, bytes) != "\n") return false;
  return last_step(file, bytes) == step;
}

/// The bytes that are still right. What follows them is lines of steps beyond, or one that was cut short.
std::int64_t right_bytes(const File& file, std::int64_t step) {
  const std::string path = file.path().string();
  const char* hint = "restore the file, or move it away: the run then goes on without what it told";
  std::int64_t bytes = 0;
  try {
    bytes = metrics_bytes_up_to(path, step);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::file) throw;
    throw Error(error.kind, error.what(), hint, error.place);
  }
  const auto end = static_cast<std::uint64_t>(bytes);
  if (end < file.size() && text_of(file, end, end + 1) != "{")
    throw Error(ErrorKind::file,
                "the metrics go on with what is no line of theirs at byte " + std::to_string(end), hint,
                path);
  return bytes;
}

}  // namespace

MetricsCut metrics_cut(Files& files, const std::filesystem::path& path, std::int64_t offset,
                       std::int64_t step) {
  if (files.kind(path) == EntryKind::missing)
    return {0, path.string() + " is missing: it begins anew, and what it told of the steps up to " +
                   std::to_string(step) + " is lost"};
  const File file = files.open_read(path, Links::refuse);
  if (offset == 0 || fits(file, offset, step)) return {offset, {}};
  const std::int64_t bytes = right_bytes(file, step);
  return {bytes, path.string() + " is not as the checkpoint of step " + std::to_string(step) +
                     " left it: of its " + std::to_string(file.size()) + " bytes (then " +
                     std::to_string(offset) + ") " + std::to_string(bytes) +
                     " are kept, and steps may be missing in it"};
}

}  // namespace quern
