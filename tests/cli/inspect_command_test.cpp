// quern inspect from outside.
#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "cli/program.hpp"

using namespace quern::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void train(const fs::path& directory, const TemporaryDirectory& place, const std::string& text) {
  REQUIRE(run({"train", "-q", "--config", QUERN_SOURCE_DIR "/configs/tiny.json", "--run-dir",
               directory.string(), "--set", "run.max_steps=4", "--set", "run.checkpoint_interval=2", "--set",
               "run.eval_interval=2", "--set", "data.text=" + text},
              place)
              .code == 0);
}

json inspected(const fs::path& path, const TemporaryDirectory& place) {
  const Outcome o = run({"inspect", path.string(), "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  json object = json::parse(o.out);
  CHECK(object.at("path") == path.string());
  return object;
}

std::string shown(const fs::path& path, const TemporaryDirectory& place) {
  const Outcome o = run({"inspect", path.string()}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(!has(o.out, "\x1b"));
  return o.out;
}

void spoil(const fs::path& path) {
  std::string bytes = get(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  put(path, bytes);
}

}  // namespace

TEST_CASE("inspect: a run, its checkpoints, their files and the text it was trained on") {
  const TemporaryDirectory place;
  const fs::path at = place / "run", text = place / "text.txt";
  std::string words;
  for (int i = 0; i < 4000; ++i) words += "w" + std::to_string(i * i % 97) + (i % 9 == 8 ? "\n" : " ");
  put(text, words);
  train(at, place, text.string());

  const json whole = inspected(at, place);
  CHECK(whole.at("kind") == "run");
  CHECK(whole.at("status") == "completed");
  CHECK(whole.at("step") == 4);
  REQUIRE(whole.at("checkpoints").size() == 2);
  CHECK(whole["checkpoints"][0].at("step") == 4);
  CHECK(whole["checkpoints"][0].at("intact") == true);
  CHECK(whole["checkpoints"][0].at("best") == true);
  const std::string run_text = shown(at, place);
  CHECK(has(run_text, "run run: completed"));
  CHECK(has(run_text, "ckpt/step-000000002"));

  const fs::path checkpoint = at / "ckpt/step-000000004";
  const json facts = inspected(checkpoint, place);
  CHECK(facts.at("kind") == "checkpoint");
  CHECK(facts.at("intact") == true);
  CHECK(facts.at("parameters") == whole.at("parameters"));
  CHECK(facts.at("val_loss") == whole.at("best_val").at("loss"));
  CHECK(facts.at("best") == true);
  CHECK(facts.at("state").at("best").at("step") == 2);  // saved before it was evaluated
  const json before = inspected(at / "ckpt/step-000000002", place);
  CHECK(before.at("best") == false);
  CHECK(before.at("val_loss") == facts.at("state").at("best").at("loss"));
  std::int64_t elements = 0;
  for (const json& group : facts.at("tensors")) elements += group.at("elements").get<std::int64_t>();
  CHECK(elements == facts.at("parameters"));
  CHECK(has(shown(checkpoint, place), ", best of the run"));

  const json model = inspected(checkpoint / "model.safetensors", place);
  CHECK(model.at("kind") == "safetensors");
  CHECK(model.at("elements") == facts.at("parameters"));
  CHECK(model.at("bytes") == fs::file_size(checkpoint / "model.safetensors"));
  CHECK(model.at("metadata").at("format") == "pt");
  for (const json& tensor : model.at("tensors")) {
    CHECK(tensor.at("nonfinite") == 0);
    CHECK(tensor.at("min").get<double>() <= tensor.at("mean").get<double>());
    CHECK(tensor.at("mean").get<double>() <= tensor.at("max").get<double>());
  }
  CHECK(has(shown(checkpoint / "model.safetensors", place), "nonfinite"));

  const json tokenizer = inspected(at / "tokenizer.json", place);
  CHECK(tokenizer.at("kind") == "tokenizer");
  CHECK(tokenizer.at("tokenizer") == "char");
  CHECK(tokenizer.at("fingerprint") == facts.at("state").at("tokenizer"));
  CHECK(tokenizer.at("tokens") ==
        json::array({"\n", " ", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "w"}));
  CHECK(has(shown(at / "tokenizer.json", place), "char tokenizer of 13 tokens"));

  const json read = inspected(text, place);
  CHECK(read.at("kind") == "text");
  CHECK(read.at("fingerprint") == facts.at("state").at("corpus"));
  CHECK(read.at("char_tokens") == words.size());
  CHECK(read.at("byte_tokens") == words.size());
  CHECK(read.at("distinct_characters") == 13);
  CHECK(read.at("lines") == 445);
  CHECK(has(shown(text, place), "valid, 13 distinct characters"));
}

TEST_CASE("inspect: damage is exit 3 in a checkpoint, and told of a run's checkpoints") {
  const TemporaryDirectory place;
  const fs::path at = place / "run", model = at / "ckpt/step-000000002/model.safetensors";
  train(at, place, QUERN_DATA_DIR "/toy.heldout.txt");
  spoil(model);
  const Outcome checkpoint = run({"inspect", (at / "ckpt/step-000000002").string()}, place);
  CHECK(checkpoint.code == 3);
  CHECK(checkpoint.out.empty());
  CHECK(has(checkpoint.err, "error[file]"));
  CHECK(has(checkpoint.err, "does not match its checksum"));
  const json whole = inspected(at, place);
  CHECK(whole.at("checkpoints")[1].at("intact") == false);
  CHECK(has(whole["checkpoints"][1].at("problem").get<std::string>(), "checksum"));
  CHECK(whole["checkpoints"][0].at("intact") == true);
  put(model, get(model).substr(0, 100));
  CHECK(run({"inspect", model.string()}, place).code == 3);
  put(at / "tokenizer.json", "{\"type\"");
  CHECK(run({"inspect", (at / "tokenizer.json").string()}, place).code == 3);
  CHECK(run({"inspect", (place / "absent").string()}, place).code == 3);
  CHECK(run({"inspect", place.path().string()}, place).code == 3);
  CHECK(run({"inspect"}, place).code == 2);
  CHECK(run({"inspect", ""}, place).code == 2);
}

TEST_CASE("inspect: bytes that are no text, and a terminal's control characters") {
  const TemporaryDirectory place;
  put(place / "bytes", "abc\nd\xFF\x1b[2J");
  const json facts = inspected(place / "bytes", place);
  CHECK(facts.at("utf8") == false);
  CHECK(facts.at("invalid") == json({{"byte", 255}, {"offset", 5}, {"line", 2}, {"column", 2}}));
  CHECK(facts.at("char_tokens").is_null());
  CHECK(facts.at("byte_tokens") == 10);
  CHECK(has(shown(place / "bytes", place), "0xFF at byte 5, line 2, column 2"));
  put(place / "tokenizer.json",
      R"({"type": "quern-char", "version": 1, "chars": ["\u0007", "\u001b", "a"]})");
  CHECK(has(shown(place / "tokenizer.json", place), R"("\x07" "\x1b" "a")"));
}
