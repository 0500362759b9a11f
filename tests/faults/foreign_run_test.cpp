// Runs that somebody else made, or put together from two: every command refuses what cannot be (3), with one
// message that names the file.
#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

using Change = std::function<void(nlohmann::json& config)>;

/// Tiny runs, and copies of them whose files were changed.
struct Place {
  TemporaryDirectory directory;

  fs::path train(const std::string& name, const std::vector<std::string>& settings) {
    train_small(directory / name, settings, directory);
    return directory / name;
  }
  fs::path parity() {
    return train("parity", {"model.architecture=encoder", "data.task=parity", "model.context_length=16"});
  }

  fs::path changed(const fs::path& original, const Change& change) {
    const fs::path path = directory / "changed";
    fs::remove_all(path);
    fs::copy(original, path, fs::copy_options::recursive);
    nlohmann::json config = nlohmann::json::parse(get(path / "config.resolved.json"));
    change(config);
    put(path / "config.resolved.json", config.dump(1));
    return path;
  }

  /// Of each command that reads a run.
  void refused(const fs::path& path, int code, const std::string& what) {
    put(directory / "lines.txt", "0110\n");
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"predict", "--run", path.string(), (directory / "lines.txt").string()},
          {"eval", "--run", path.string()},
          {"train", "-q", "--resume", path.string(), "--set", "run.max_steps=2"}}) {
      const Outcome o = run(words, directory);
      CAPTURE(words, o.err);
      CHECK(o.code == code);
      CHECK(o.err.find(what) != std::string::npos);
      CHECK(o.err.find("config.resolved.json") != std::string::npos);
    }
  }
};

}  // namespace

TEST_CASE("a run whose labels are not those of its head is refused") {
  Place place;
  const fs::path parity = place.parity();
  const auto with = [&](const nlohmann::json& labels) {
    return place.changed(parity, [&](nlohmann::json& c) { c["data"]["labels"] = labels; });
  };
  place.refused(with(nlohmann::json::array()), 3, "data.labels has 0 entries, and model.n_outputs is 2");
  std::vector<std::string> many;
  for (int i = 0; i < 4000; ++i) many.push_back("l" + std::to_string(i));
  place.refused(with(many), 3, "data.labels has 4000 entries, and model.n_outputs is 2");
}

TEST_CASE("a run with another head than its task's, or another run's tokenizer, is refused") {
  Place place;
  const fs::path parity = place.parity();
  place.refused(place.changed(parity, [](nlohmann::json& c) { c["model"]["head"] = "tokens"; }), 2,
                "is not what data.task \"parity\" asks of model.architecture \"encoder\"");

  const fs::path text = place.train("text", {"model.context_length=16"});
  const fs::path mixed = place.changed(parity, [](nlohmann::json&) {});
  fs::copy_file(text / "tokenizer.json", mixed / "tokenizer.json", fs::copy_options::overwrite_existing);
  place.refused(mixed, 3, "and tokenizer.json has");
}

TEST_CASE("a run of images without their size, or of questions without an encoder, is refused") {
  Place place;
  const fs::path shapes =
      place.train("shapes", {"model.architecture=vit", "data.task=shapes", "model.context_length=65"});
  place.refused(
      place.changed(shapes, [](nlohmann::json& c) { c["model"]["image"] = nlohmann::json::array(); }), 3,
      "model.image is empty");
  place.refused(place.changed(shapes, [](nlohmann::json& c) { c["model"]["image"] = {1}; }), 2,
                "must have 3 entries, found 1");

  const fs::path copy = place.train(
      "copy", {"model.architecture=rnn", "data.task=copy", "model.context_length=16", "model.position=none"});
  place.refused(place.changed(copy, [](nlohmann::json& c) { c["model"]["reads_source"] = false; }), 3,
                "model.reads_source is false");
}
