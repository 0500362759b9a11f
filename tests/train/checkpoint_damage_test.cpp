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
    for (const char* set :
         {"model.d_model=16", "model.n_layers=2", "model.n_heads=2", "model.context_length=16",
          "run.max_steps=2", "run.batch_size=2", "schedule.warmup_steps=0", "run.eval_batches=1"})
      request.sets.emplace_back(set);
    request.sets.push_back("data.text=" + (directory / "text.txt").string());
    REQUIRE(train(files, request, [](Observers&, const Config&, const fs::path&) {}).exit_code == 0);
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

TEST_CASE("a checkpoint cut at any byte of the model's header, or at 200 random bytes, is found") {
  Trained trained;
  std::uint64_t header = 0;
  std::memcpy(&header, trained.whole[0].data(), sizeof header);
  header += sizeof header;
  REQUIRE(header < trained.whole[0].size());
  for (std::size_t length = 0; length <= header; ++length) {
    CAPTURE(length);
    trained.require_found(0, trained.whole[0].substr(0, length));
  }
  std::mt19937 random(200);
  for (int i = 0; i < 200; ++i) {
    const std::size_t file = random() % kNames.size();
    const std::size_t length = random() % trained.whole[file].size();
    CAPTURE(kNames[file], length);
    trained.require_found(file, trained.whole[file].substr(0, length));
  }
  CHECK_NOTHROW(open_checkpoint(trained.files, trained.path));
}

TEST_CASE("of 2,000 random flipped bits of a checkpoint none is accepted") {
  Trained trained;
  std::mt19937 random(2000);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t file = random() % kNames.size();
    std::string damaged = trained.whole[file];
    const std::size_t bit = random() % (8 * damaged.size());
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    CAPTURE(kNames[file], bit);
    trained.require_found(file, damaged);
  }
  CHECK_NOTHROW(open_checkpoint(trained.files, trained.path));
}
