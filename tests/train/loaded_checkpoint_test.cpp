#include "quern/train/loaded_checkpoint.hpp"

#include <random>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "train/checkpoint_fixture.hpp"

using namespace quern;
using quern::safetensors::DType;
using quern::safetensors::TensorTarget;
using quern::test::contains;
using quern::test::error_of;
using quern::test::get;
using quern::test::put;
using quern::test::require_holds;
using quern::test::TemporaryDirectory;
using quern::test::TinyCheckpoint;

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kNames{"model.safetensors", "optim.safetensors", "state.json",
                                      "manifest.json"};

struct Saved {
  TemporaryDirectory run;
  Files files;
  fs::path path;
  Saved() : path(CheckpointStore(files, run.path()).save(TinyCheckpoint(20).data())) {}

  Error refusal() {
    return error_of([&] { open_checkpoint(files, path); });
  }
};

}  // namespace

TEST_CASE("loaded checkpoint: any flipped bit of any file is found and the file is named") {
  Saved saved;
  for (const std::string& name : kNames) {
    const std::string whole = get(saved.path / name);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      put(saved.path / name, damaged);
      CAPTURE(name, bit);
      const Error error = saved.refusal();
      REQUIRE(error.kind == ErrorKind::file);
      REQUIRE(error.place == (saved.path / name).string());
    }
    put(saved.path / name, whole);
  }
  require_holds(open_checkpoint(saved.files, saved.path), 20);
}

TEST_CASE("loaded checkpoint: random damage in large tensors is found") {
  const TemporaryDirectory run;
  Files files;
  std::vector<float> large(300'000);  // more than one chunk of the reader
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  const CheckpointData data{
      1, {{"large", DType::F32, {300'000}, large.data()}}, {}, nlohmann::json::object()};
  const fs::path path = CheckpointStore(files, run.path()).save(data);
  std::string content = get(path / "model.safetensors");
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    const std::size_t bit = random() % (8 * content.size());
    const auto flip = [&] {
      content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << (bit % 8)));
      put(path / "model.safetensors", content);
    };
    flip();
    REQUIRE_THROWS_AS(open_checkpoint(files, path), Error);
    flip();
  }
  REQUIRE_NOTHROW(open_checkpoint(files, path));
}

TEST_CASE("loaded checkpoint: any truncation of any file is found, and the message says where it ends") {
  Saved saved;
  for (const std::string& name : kNames) {
    const std::string whole = get(saved.path / name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      put(saved.path / name, whole.substr(0, length));
      CAPTURE(name, length);
      const Error error = saved.refusal();
      REQUIRE(error.kind == ErrorKind::file);
      REQUIRE(error.place == (saved.path / name).string());
      if (name != "manifest.json") {
        const std::string where = std::to_string(length) + " of " + std::to_string(whole.size());
        REQUIRE(contains(error.what(), "the file ends at byte " + where));
      }
    }
    put(saved.path / name, whole + "x");
    REQUIRE(saved.refusal().kind == ErrorKind::file);
    put(saved.path / name, whole);
  }
}

TEST_CASE("loaded checkpoint: missing and exchanged files") {
  Saved saved;
  for (const std::string& name : kNames) {
    const std::string whole = get(saved.path / name);
    fs::remove(saved.path / name);
    CAPTURE(name);
    CHECK(saved.refusal().kind == ErrorKind::file);
    fs::create_symlink("/dev/zero", saved.path / name);
    CHECK(saved.refusal().kind == ErrorKind::file);
    fs::remove(saved.path / name);
    fs::create_directory(saved.path / name);
    CHECK(saved.refusal().kind == ErrorKind::file);
    fs::remove(saved.path / name);
    put(saved.path / name, whole);
  }
  require_holds(open_checkpoint(saved.files, saved.path), 20);

  CHECK(contains(error_of([&] { open_checkpoint(saved.files, saved.run / "none"); }).what(),
                 "no such checkpoint"));
  CHECK(
      contains(error_of([&] { open_checkpoint(saved.files, saved.run.path()); }).what(), "no manifest.json"));

  // The files of another step, manifest included, under this step's name.
  fs::rename(saved.path, saved.run / "ckpt/step-000000021");
  saved.path = saved.run / "ckpt/step-000000021";
  CHECK(contains(saved.refusal().what(), "it is of step 20, not of 21"));
  fs::rename(saved.path, saved.run / "a copy");
  require_holds(open_checkpoint(saved.files, saved.run / "a copy"), 20);
}

TEST_CASE("loaded checkpoint: damaged tensors are named with their place") {
  Saved saved;
  std::string content = get(saved.path / "model.safetensors");
  content.back() = static_cast<char>(content.back() ^ 1);
  put(saved.path / "model.safetensors", content);
  const Error error = saved.refusal();
  const std::string end = std::to_string(content.size());
  CHECK(std::string(error.what()) == "the checkpoint is damaged: tensor \"wte.weight\", bytes " +
                                         std::to_string(content.size() - 24) + " to " + end +
                                         ", does not match its checksum");
  CHECK(contains(error.hint, "--resume auto"));
}

TEST_CASE("loaded checkpoint: a file that changes after the check is found as it is read") {
  Saved saved;
  const LoadedCheckpoint loaded = open_checkpoint(saved.files, saved.path);
  std::string content = get(saved.path / "model.safetensors");
  content.back() = static_cast<char>(content.back() ^ 1);
  put(saved.path / "model.safetensors", content);
  std::vector<float> weight(6), bias(2);
  const std::vector<TensorTarget> targets{{"ln_f.bias", DType::F32, {2}, bias.data()},
                                          {"wte.weight", DType::F32, {3, 2}, weight.data()}};
  CHECK(contains(error_of([&] { loaded.read_model(targets); }).what(), "does not match its checksum"));
}

TEST_CASE("loaded checkpoint: tensors that do not fit the model") {
  Saved saved;
  const LoadedCheckpoint loaded = open_checkpoint(saved.files, saved.path);
  std::vector<float> weight(6, -1.0f);
  const std::vector<TensorTarget> targets{{"wte.weight", DType::F32, {2, 3}, weight.data()},
                                          {"wpe.weight", DType::F32, {6}, weight.data()}};
  const Error error = error_of([&] { loaded.read_model(targets); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(contains(error.what(), "\"wte.weight\" is F32 [3, 2] where the model has F32 [2, 3]"));
  CHECK(contains(error.what(), "\"wpe.weight\" is missing"));
  CHECK(contains(error.what(), "\"ln_f.bias\" is not expected"));
  CHECK(weight == std::vector<float>(6, -1.0f));
}

TEST_CASE("loaded checkpoint: only the model, where only that is needed") {
  Saved saved;
  fs::remove(saved.path / "optim.safetensors");
  CHECK(saved.refusal().kind == ErrorKind::file);
  const LoadedCheckpoint loaded = open_checkpoint(saved.files, saved.path, CheckpointParts::model);
  CHECK(loaded.model().tensors().size() == 2);
  CHECK_THROWS_AS(loaded.optim(), Bug);
}

TEST_CASE("loaded checkpoint: names of steps") {
  CHECK(checkpoint_name(20) == "step-000000020");
  CHECK(checkpoint_name(0) == "step-000000000");
  CHECK(checkpoint_name(12345678901) == "step-12345678901");
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{999999999}, std::int64_t{12345678901}}) {
    CHECK(checkpoint_step(checkpoint_name(step)) == step);
  }
  for (const char* name :
       {"step-20", "step-0000000020", "step--00000020", "step-00000002x", "step-", "Step-000000020",
        "step-99999999999999999999", ".tmp-step-000000020", "step-+00000020"}) {
    CAPTURE(name);
    CHECK_FALSE(checkpoint_step(name));
  }
  CHECK(run_of_checkpoint("/runs/a/ckpt/step-000000020/") == fs::path("/runs/a"));
  CHECK(run_of_checkpoint("/runs/a/../b/ckpt/step-000000020") == fs::path("/runs/b"));
  CHECK_FALSE(run_of_checkpoint("/runs/a/ckpt"));
  CHECK_FALSE(run_of_checkpoint("/runs/a/step-000000020"));
}
