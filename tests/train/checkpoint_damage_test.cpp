// Damage of a checkpoint as training makes it: none is accepted, and the damaged file is named.
#include <cstdint>
#include <cstring>
#include <random>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/session.hpp"
#include "train/checkpoint_fixture.hpp"

using namespace quern;
using quern::test::error_of;
using quern::test::get;
using quern::test::put;
using quern::test::TemporaryDirectory;

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kNames{"model.safetensors", "optim.safetensors", "state.json",
                                      "manifest.json"};

/// The last checkpoint of a short run, and what its files hold.
struct Trained {
  TemporaryDirectory directory;
  Files files;
  fs::path path = directory / "run/ckpt/step-000000002";
  std::vector<std::string> whole;

  Trained() {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "Sentence " + std::to_string(i * 37 % 101) + ".\n";
    put(directory / "text.txt", text);
    TrainRequest request;
    request.run_dir = directory / "run";
    for (const char* set : {"model.d_model=8", "model.n_layers=1", "model.n_heads=2",
                            "model.context_length=8", "data.tokenizer=char", "run.max_steps=2",
                            "run.batch_size=2", "schedule.warmup_steps=0", "run.eval_batches=1"})
      request.sets.emplace_back(set);
    request.sets.push_back("data.text=" + (directory / "text.txt").string());
    REQUIRE(train(files, request).exit_code == 0);
    for (const std::string& name : kNames) whole.push_back(get(path / name));
    REQUIRE_NOTHROW(open_checkpoint(files, path));
  }

  /// The damage is found, by a whole read and, where it is not in the optimizer's file, by one for sampling.
  void require_found(std::size_t file, const std::string& damaged) {
    const std::string place = (path / kNames[file]).string();
    put(place, damaged);
    for (const CheckpointParts parts : {CheckpointParts::all, CheckpointParts::model}) {
      if (parts == CheckpointParts::model && kNames[file] == "optim.safetensors") continue;
      const Error error = error_of([&] { open_checkpoint(files, path, parts); });
      REQUIRE(error.kind == ErrorKind::file);
      REQUIRE(error.place == place);
    }
    put(place, whole[file]);
  }
};

}  // namespace

/// The bytes of a safetensors file before its data.
std::size_t header_bytes(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  REQUIRE(sizeof length + length < file.size());
  return sizeof length + length;
}

std::string with_flipped(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  return bytes;
}

TEST_CASE("a checkpoint cut at any byte of a header, or at 1,000 random bytes, is found") {
  Trained trained;
  for (const std::size_t file : {0, 1}) {
    for (std::size_t length = 0; length <= header_bytes(trained.whole[file]); ++length) {
      CAPTURE(kNames[file], length);
      trained.require_found(file, trained.whole[file].substr(0, length));
    }
  }
  std::mt19937 random(1000);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t file = random() % kNames.size();
    const std::size_t length = random() % trained.whole[file].size();
    CAPTURE(kNames[file], length);
    trained.require_found(file, trained.whole[file].substr(0, length));
  }
  CHECK_NOTHROW(open_checkpoint(trained.files, trained.path));
}

TEST_CASE("of all flipped bits of the headers, of the manifest and of the state none is accepted") {
  Trained trained;
  for (std::size_t file = 0; file < kNames.size(); ++file) {
    const std::size_t bytes = file < 2 ? header_bytes(trained.whole[file]) : trained.whole[file].size();
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
      CAPTURE(kNames[file], bit);
      trained.require_found(file, with_flipped(trained.whole[file], bit));
    }
  }
}

TEST_CASE("a manifest or a state of more than 64 MiB is not read at all") {
  Trained trained;
  constexpr std::uintmax_t most = std::uintmax_t{64} << 20;
  for (const std::size_t file : {2, 3}) {
    CAPTURE(kNames[file]);
    const fs::path path = trained.path / kNames[file];
    const auto what = [&](std::uintmax_t bytes) {
      fs::resize_file(path, bytes);  // zeros that take no space
      const Error error = error_of([&] { open_checkpoint(trained.files, trained.path); });
      CHECK(error.kind == ErrorKind::file);
      CHECK(error.place == path.string());
      return std::string(error.what());
    };
    CHECK(what(most + 1) == "the file has 67108865 bytes, more than the 67108864 allowed here");
    CHECK(what(std::uintmax_t{1} << 40).ends_with("more than the 67108864 allowed here"));
    CHECK(what(most).find("allowed here") == std::string::npos);  // its content is what is wrong
    put(path, trained.whole[file]);
  }
  CHECK_NOTHROW(open_checkpoint(trained.files, trained.path));
}

TEST_CASE("of 10,000 random flipped bits of a checkpoint none is accepted") {
  Trained trained;
  std::mt19937 random(10000);
  for (int i = 0; i < 10000; ++i) {
    const std::size_t file = random() % kNames.size();
    const std::size_t bit = random() % (8 * trained.whole[file].size());
    CAPTURE(kNames[file], bit);
    trained.require_found(file, with_flipped(trained.whole[file], bit));
  }
  CHECK_NOTHROW(open_checkpoint(trained.files, trained.path));
}
