#include "quern/train/inspect.hpp"

#include <sys/stat.h>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/text/tokenizer.hpp"
#include "train/checkpoint_fixture.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::error_of;
using quern::test::get;
using quern::test::put;
using quern::test::TemporaryDirectory;
using quern::test::TinyCheckpoint;

namespace fs = std::filesystem;

TEST_CASE("inspect: what a path holds is seen from the directory, the name and the content") {
  const TemporaryDirectory place;
  Files files;
  fs::create_directory(place / "run");
  put(place / "run/config.resolved.json", "{}");
  const fs::path checkpoint = CheckpointStore(files, place / "run").save(TinyCheckpoint(20).data());
  put(place / "tokenizer.json", Tokenizer::bytes().to_json());
  put(place / "other-name.json", Tokenizer::bytes().to_json());
  put(place / "quern.json", R"({"type": "quern-unheard-of"})");
  put(place / "config.json", R"({"model": {}})");
  put(place / "number.json", "3");
  put(place / "broken.json", "{\"type\": \"quern-byte\"");
  put(place / "text", "{\"type\": \"quern-byte\", \"version\": 1}");
  fs::create_symlink("run", place / "link");
  const auto kind = [&](const fs::path& path) { return path_kind(files, path); };
  CHECK(kind(place / "run") == PathKind::run);
  CHECK(kind(place / "link/") == PathKind::run);
  CHECK(kind(checkpoint) == PathKind::checkpoint);
  CHECK(kind(checkpoint / "") == PathKind::checkpoint);
  CHECK(kind(checkpoint / "model.safetensors") == PathKind::safetensors);
  CHECK(kind(checkpoint / "manifest.json") == PathKind::text);
  CHECK(kind(place / "tokenizer.json") == PathKind::tokenizer);
  CHECK(kind(place / "other-name.json") == PathKind::tokenizer);
  CHECK(kind(place / "quern.json") == PathKind::tokenizer);
  CHECK(kind(place / "config.json") == PathKind::text);
  CHECK(kind(place / "number.json") == PathKind::text);
  CHECK(kind(place / "broken.json") == PathKind::text);
  CHECK(kind(place / "text") == PathKind::text);
  // A tokenizer.json of another program is a text; one that is no JSON is a damaged one.
  put(place / "tokenizer.json", R"({"version": "1.0", "model": {"type": "BPE"}})");
  CHECK(kind(place / "tokenizer.json") == PathKind::text);
  put(place / "tokenizer.json", "{\"type\": \"quern-by");
  CHECK(kind(place / "tokenizer.json") == PathKind::tokenizer);
  // Copied elsewhere, a checkpoint is still one.
  fs::copy(checkpoint, place / "copy");
  CHECK(kind(place / "copy") == PathKind::checkpoint);
}

TEST_CASE("inspect: what is nothing of these is exit 3, with what to do") {
  const TemporaryDirectory place;
  Files files;
  fs::create_directory(place / "directory");
  REQUIRE(::mkfifo((place / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"absent", "directory", "pipe"}) {
    const Error error = error_of([&] { path_kind(files, place / name); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == (place / name).string());
  }
  CHECK(contains(error_of([&] { path_kind(files, place / "directory"); }).hint, "quern runs ls"));
}

TEST_CASE("inspect: a checkpoint in figures, or what is wrong with it") {
  const TemporaryDirectory run;
  Files files;
  const fs::path path = CheckpointStore(files, run.path()).save(TinyCheckpoint(20).data());
  const CheckpointFacts facts = describe_checkpoint(files, path);
  CHECK(facts.step == 20);
  CHECK(facts.model.tensors == 2);
  CHECK(facts.model.elements == 8);
  CHECK(facts.optim.elements == 6);
  CHECK(facts.model.bytes == fs::file_size(path / "model.safetensors"));
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) bytes += entry.file_size();
  CHECK(facts.bytes == bytes);
  REQUIRE(facts.groups.size() == 2);
  CHECK(facts.groups[0].name == "ln_f.bias");
  CHECK(facts.state == TinyCheckpoint(20).data().state);
  CHECK_FALSE(facts.val_loss);
  const std::string eval = R"({"event":"eval","step":10,"split":"val","loss":3,"tokens":1})"
                           "\n"
                           R"({"event":"eval","step":20,"split":"val","loss":2,"tokens":1})"
                           "\n";
  put(run / "metrics.jsonl", eval);
  CHECK(describe_checkpoint(files, path / "").val_loss == 2);
  CHECK(describe_checkpoint(files, path).best);
  put(run / "metrics.jsonl", eval + R"({"event":"eval","step":30,"split":"val","loss":1,"tokens":1})" + "\n");
  CHECK_FALSE(describe_checkpoint(files, path).best);
  put(run / "metrics.jsonl", "nonsense\n");
  CHECK_FALSE(describe_checkpoint(files, path).val_loss);

  std::string model = get(path / "model.safetensors");
  model.back() = static_cast<char>(model.back() ^ 1);
  put(path / "model.safetensors", model);
  const Error error = error_of([&] { describe_checkpoint(files, path); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(contains(error.what(), "does not match its checksum"));
}

TEST_CASE("inspect: all checkpoints of a run, each intact or not") {
  const TemporaryDirectory run;
  Files files;
  CHECK(check_checkpoints(files, run.path()).empty());
  CheckpointStore store(files, run.path());
  for (const std::int64_t step : {10, 20, 30}) store.save(TinyCheckpoint(step).data());
  fs::remove(run / "ckpt/step-000000020/state.json");
  fs::create_directory(run / "ckpt/.tmp-step-000000040-1-0123456789abcdef");  // a save in progress
  const std::vector<CheckedCheckpoint> found = check_checkpoints(files, run.path());
  REQUIRE(found.size() == 3);
  CHECK(found[0].step == 30);
  CHECK(found[0].path == "ckpt/step-000000030");
  CHECK(found[0].problem.empty());
  CHECK(contains(found[1].problem, "state.json"));
  CHECK(found[1].bytes > 0);
  CHECK(found[2].problem.empty());
}

TEST_CASE("inspect: a checkpoint that a running trainer deletes meanwhile is left out") {
  // Deletes the older checkpoint when the newer one is read.
  class PruningFiles final : public Files {
   public:
    fs::path doomed;

   protected:
    int system_open(int directory, const char* path, int flags, mode_t mode) override {
      if (contains(path, "step-000000020")) fs::remove_all(doomed);
      return Files::system_open(directory, path, flags, mode);
    }
  };
  const TemporaryDirectory run;
  PruningFiles files;
  {
    Files plain;
    CheckpointStore store(plain, run.path());
    for (const std::int64_t step : {10, 20}) store.save(TinyCheckpoint(step).data());
  }
  files.doomed = run / "ckpt/step-000000010";
  const std::vector<CheckedCheckpoint> found = check_checkpoints(files, run.path());
  REQUIRE(found.size() == 1);
  CHECK(found[0].step == 20);
}
