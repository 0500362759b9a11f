// A run goes on with the data that it began with, or not at all.
#include <functional>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "data/image_files.hpp"
#include "error_of.hpp"
#include "quern/train/session.hpp"

using namespace quern;
using test::error_of;
using test::TemporaryDirectory;

namespace {

struct Fixture {
  TemporaryDirectory directory;
  Files files;

  void start(std::vector<std::string> sets) {
    TrainRequest request;
    for (const char* set : {"model.d_model=8", "model.n_layers=1", "model.n_heads=1",
                            "model.context_length=16", "run.max_steps=2", "run.batch_size=2",
                            "run.checkpoint_interval=1", "data.val_fraction=0.25", "schedule.warmup_steps=0"})
      sets.emplace_back(set);
    request.sets = std::move(sets);
    request.run_dir = directory / "run";
    train(files, request);
  }
  void resume() {
    TrainRequest request;
    request.resume = (directory / "run").string();
    request.sets = {"run.max_steps=3"};
    train(files, request);
  }
  void check_refused(const std::string& data) {
    const Error error = error_of([&] { resume(); });
    CHECK(error.kind == ErrorKind::run);
    CHECK(std::string(error.what()) ==
          "the corpus \"" + (directory / data).string() + "\" is not the one this run was trained with");
    CHECK(error.hint == "restore the file, or start a new run");
  }
};

}  // namespace

TEST_CASE("a resume refuses other labels in the file beside the same images") {
  Fixture f;
  const auto label = [&](const std::string& labels) {
    test::put(f.directory / "labels-idx1", test::idx(test::kIdxLabels, {8}, labels));
  };
  test::put(f.directory / "images-idx3", test::idx(test::kIdxImages, {8, 2, 2}, std::string(32, '\7')));
  label({0, 1, 0, 1, 0, 1, 0, 1});
  f.start({"data.task=images", "model.architecture=vit", "model.patch_size=2",
           "data.text=" + (f.directory / "images-idx3").string()});
  label({0, 1, 0, 1, 0, 1, 1, 0});
  f.check_refused("images-idx3");
  label({0, 1, 0, 1, 0, 1, 0, 1});
  CHECK_NOTHROW(f.resume());
}

TEST_CASE("a resume refuses a picture that lies in another label's folder") {
  Fixture f;
  for (int i = 0; i < 8; ++i) {
    const auto folder = f.directory / "images" / (i < 4 ? "a" : "b");
    std::filesystem::create_directories(folder);
    test::put(folder / (std::to_string(i) + ".pgm"), "P2 2 2 255 " + std::to_string(i) + " 0 0 0\n");
  }
  f.start({"data.task=images", "model.architecture=vit", "model.patch_size=2",
           "data.text=" + (f.directory / "images").string()});
  std::filesystem::rename(f.directory / "images/b/4.pgm", f.directory / "images/a/4.pgm");
  f.check_refused("images");
}

TEST_CASE("a resume refuses values that differ by less than a millionth") {
  Fixture f;
  const auto write = [&](const std::string& value) {
    std::string lines;
    for (int i = 0; i < 8; ++i) lines += "count " + std::to_string(i) + "\t" + value + "\n";
    test::put(f.directory / "values.tsv", lines);
  };
  write("1e-7");
  f.start({"data.task=regression", "model.architecture=encoder",
           "data.text=" + (f.directory / "values.tsv").string()});
  write("4e-7");
  f.check_refused("values.tsv");
}
