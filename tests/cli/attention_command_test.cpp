// quern attention from outside.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/runs.hpp"

using namespace quern::test;
using nlohmann::json;

TEST_CASE("attention: heatmaps of a run's heads, as a picture and as JSON") {
  const TemporaryDirectory place;
  const std::string at = (place / "run").string();
  REQUIRE(run({"train", "-q", "--config", configs + "tiny.json", "--run-dir", at, "--set", "run.max_steps=1"},
              place)
              .code == 0);
  const Outcome o = run({"attention", "--run", at, "--prompt", "One day", "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const json found = json::parse(o.out);
  CHECK(found.at("tokens") == json({"O", "n", "e", " ", "d", "a", "y"}));
  REQUIRE(!found.at("maps").empty());
  for (const json& map : found.at("maps")) {
    REQUIRE(map.at("weights").size() == 7);
    for (std::size_t t = 0; t < 7; ++t) {
      double sum = 0;
      for (std::size_t s = 0; s < 7; ++s) {
        const double weight = map.at("weights").at(t).at(s);
        CHECK((s <= t ? weight > 0 : weight == 0));
        sum += weight;
      }
      CHECK(std::abs(sum - 1) < 1e-6);
    }
  }
  const Outcome picture =
      run({"attention", "--run", at, "--prompt", "One day", "--layer", "0", "--head", "1"}, place);
  CHECK(picture.code == 0);
  CHECK(has(picture.out, "layer 0, head 1\n"));
  CHECK(std::count(picture.out.begin(), picture.out.end(), '\n') == 1 + 1 + 7);
  CHECK((has(picture.out, "O #        1.000\n") || has(picture.out, "O █        1.000\n")));  // by locale
}

TEST_CASE("attention: what a user may get wrong") {
  const TemporaryDirectory place;
  const std::string at = (place / "run").string();
  REQUIRE(run({"train", "-q", "--config", configs + "tiny.json", "--run-dir", at, "--set", "run.max_steps=0"},
              place)
              .code == 0);
  const auto refused = [&](std::vector<std::string> more, const std::string& text) {
    std::vector<std::string> words = {"attention", "--run", at};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words, place);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(has(o.err, text));
  };
  refused({"--prompt", "One", "--layer", "99"}, "--layer 99: the model has ");
  refused({"--prompt", "One", "--head", "99"}, "--head 99: the model has ");
  refused({"--prompt", std::string(5000, 'a')}, "--prompt: 5000 tokens, but the model's positions end at ");
  refused({"--prompt", "O\x01"}, "--prompt");
  refused({"--prompt", ""}, "--prompt: is empty");
}

TEST_CASE("attention: the columns of low-rank attention are its mixtures") {
  const TemporaryDirectory place;
  const std::string at = (place / "run").string();
  train_small(at,
              {"model.architecture=encoder", "model.attention=low_rank", "model.rank=3", "data.task=parity",
               "model.context_length=16", "run.max_steps=1"},
              place);
  const Outcome o = run({"attention", "--run", at, "--prompt", "10110", "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const json found = json::parse(o.out);
  CHECK(found.at("tokens") == json({"\n", "1", "0", "1", "1", "0"}));
  CHECK(found.at("mixtures") == json({"mix 1", "mix 2", "mix 3"}));
  REQUIRE(found.at("maps").size() == 2);
  for (const json& map : found.at("maps")) {
    REQUIRE(map.at("weights").size() == 6);
    for (const json& row : map.at("weights")) {
      REQUIRE(row.size() == 3);
      CHECK(std::abs(row[0].get<double>() + row[1].get<double>() + row[2].get<double>() - 1) < 1e-6);
    }
  }
  const Outcome picture = run({"attention", "--run", at, "--prompt", "10110", "--head", "1"}, place);
  CHECK(picture.code == 0);
  CHECK(has(picture.out,
            "layer 0, head 1: the columns are mixtures of all tokens, mix 1 to mix 3\n   123  max\n\\n "));
  CHECK(std::count(picture.out.begin(), picture.out.end(), '\n') == 1 + 1 + 6);
}

TEST_CASE("attention: an answer may be as long as the model reads") {
  const TemporaryDirectory place;
  std::string pairs;
  for (int i = 0; i < 20; ++i)
    pairs += "the cat sat on a mat\tdie katze sass auf einer matte\na dog ran\tein hund lief weg\n";
  put(place / "pairs.tsv", pairs);
  const std::string at = (place / "run").string();
  train_small(at,
              {"model.architecture=encoder_decoder", "data.task=translation",
               "data.text=" + (place / "pairs.tsv").string(), "data.tokenizer=word", "model.context_length=8",
               "run.max_steps=0", "run.seed=1"},
              place);
  const Outcome o = run({"attention", "--run", at, "--prompt", "a dog ran", "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const json found = json::parse(o.out);
  REQUIRE(found.at("answer").size() == 8);  // an untrained model's, which never ends
  CHECK(found["answer"].back() != "\n");
  CHECK(!found.contains("mixtures"));
  for (const json& map : found.at("maps"))
    CHECK((map.at("weights").size() == 8 && map["weights"][7].size() == 3));
  const Outcome full = run({"attention", "--run", at, "--prompt", "a cat sat on a mat a dog"}, place);
  CAPTURE(full.err);
  CHECK(full.code == 0);
  const Outcome more = run({"attention", "--run", at, "--prompt", "a cat sat on a mat a dog ran"}, place);
  CHECK(more.code == 2);
  CHECK(has(more.err, "--prompt: 9 tokens, but the model's positions end at 8 (model.context_length)"));
}

TEST_CASE("attention: a model that tags or recalls reads no mark") {
  const TemporaryDirectory place;
  const std::string at = (place / "run").string();
  train_small(
      at, {"model.architecture=encoder", "data.task=recall", "model.context_length=64", "run.max_steps=1"},
      place);
  const Outcome o = run({"attention", "--run", at, "--prompt", "1234", "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(json::parse(o.out).at("tokens") == json({"1", "2", "3", "4"}));
}

TEST_CASE("a model of packed documents reads and writes one document") {
  const TemporaryDirectory place;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "One day Pip ran.<|endoftext|>";
  put(place / "text.txt", text);
  const std::string at = (place / "run").string();
  REQUIRE(run({"train", "-q", "--config", configs + "tiny.json", "--run-dir", at, "--set", "run.max_steps=30",
               "--set", "data.text=" + (place / "text.txt").string(), "--set", "data.pack=documents", "--set",
               "optim.learning_rate=0.01"},
              place)
              .code == 0);
  const Outcome o = run({"attention", "--run", at, "--prompt", "y ran.<|endoftext|>One", "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(json::parse(o.out).at("tokens") == json({"O", "n", "e"}));
  const auto sample = [&](const std::string& prompt) {
    return run({"sample", "--run", at, "--prompt", prompt, "--temperature", "0", "--max-new-tokens", "40"},
               place)
        .out;
  };
  const std::string alone = sample("One");
  CHECK(sample("ran.<|endoftext|>One") == "ran.<|endoftext|>" + alone);
  CHECK(!has(alone, "<|endoftext|>"));
}
