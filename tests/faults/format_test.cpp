// Runs of every version of the checkpoint's format are kept in tests/fixtures/checkpoints: they load, and the
// model writes what it wrote then.
#include <map>
#include <sstream>

#include "cli/runs.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "train/resealed.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

std::string decoded(const std::string& base64) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : base64) {
    const std::size_t value = alphabet.find(c);
    if (value == alphabet.npos) continue;  // '=' at the end
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((held += 6) >= 8) bytes += static_cast<char>(bits >> (held -= 8) & 0xFF);
  }
  return bytes;
}

/// Unpacks a fixture: "=~ PATH" begins a text and "== PATH" another file, whose bytes follow in base64; lines
/// of "#" are for people, "> TEXT" is what the model wrote.
std::string unpack(const fs::path& fixture, const fs::path& to) {
  std::istringstream lines(get(fixture));
  std::string path, wrote;
  bool is_text = false;
  std::map<std::string, std::string> files;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("> ")) {
      wrote += line.substr(2) + "\n";
    } else if (line.starts_with("== ") || line.starts_with("=~ ")) {
      is_text = line[1] == '~';
      path = line.substr(3);
    } else {
      files[path] += is_text ? line + "\n" : decoded(line);  // lines of 120 characters are whole bytes
    }
  }
  for (const auto& [name, bytes] : files) {
    fs::create_directories((to / name).parent_path());
    put(to / name, bytes);
  }
  return wrote;
}

}  // namespace

TEST_CASE("a run of each version of the format loads whole, and its model writes what it wrote then") {
  int versions = 0;
  for (const auto& fixture : fs::directory_iterator(QUERN_SOURCE_DIR "/tests/fixtures/checkpoints")) {
    const TemporaryDirectory directory;
    const fs::path path = directory / "run";
    const std::string wrote = unpack(fixture.path(), path);
    CAPTURE(fixture.path().filename().string());
    REQUIRE(!wrote.empty());
    quern::Files files;
    auto found = quern::CheckpointStore(files, path).find_latest();
    REQUIRE(found.checkpoint);
    CHECK(found.warnings.empty());
    const Outcome o = run({"sample", "--run", path.string(), "--checkpoint", "last", "--prompt", "The ",
                           "--temperature", "0", "--max-new-tokens", "40"},
                          directory);
    CAPTURE(o.err);
    CHECK(o.code == 0);
    CHECK(o.out == wrote);
    // It goes on, too, with the text of which the fixture tells; it has no metrics, which is said.
    std::string text;
    for (int i = 0; i < 40; ++i) text += "The cat sat on the mat. The dog ate the egg.\n";
    put(directory / "text.txt", text);
    const Outcome resumed = run({"train", "--resume", path.string(), "--set", "run.max_steps=105"}, directory,
                                {.folder = directory.path().string()});
    CAPTURE(resumed.err);
    CHECK(resumed.code == 0);
    CHECK(has(resumed.err, "resumed after step 100"));
    CHECK(has(resumed.err, "completed after step 105"));
    ++versions;
  }
  CHECK(versions >= 1);
}

TEST_CASE("a newer quern's checkpoint is neither read nor deleted: exit 3, and no going back behind it") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  const std::vector<std::string> settings = {"run.max_steps=6", "run.checkpoint_interval=2",
                                             "run.eval_batches=1"};
  REQUIRE(run(resume_words(path, settings), directory).code == 0);
  const fs::path manifest = path / "ckpt/step-000000006/manifest.json";
  put(manifest, resealed(get(manifest), "\"version\": 1", "\"version\": 2"));
  const std::string metrics = get(path / "metrics.jsonl");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"train", "--resume", path.string()},
                                                resume_words(path, settings),
                                                {"eval", "--run", path.string(), "--checkpoint", "last"}}) {
    const Outcome o = run(words, directory);
    CAPTURE(o.err);
    CHECK(o.code == 3);
    CHECK(has(o.err, "the checkpoint has format version 2; this program reads version 1"));
    CHECK(has(o.err, "use the version of quern that wrote it"));
  }
  for (const char* step : {"step-000000004", "step-000000006"}) CHECK(fs::exists(path / "ckpt" / step));
  CHECK(get(path / "metrics.jsonl") == metrics);
}
