// Every architecture through the whole of training: it learns, it is evaluated, it resumes bit for bit.
#include <map>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/load.hpp"
#include "quern/train/predict.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::TemporaryDirectory;

namespace {

/// What a run of each is made of, beside the sizes.
struct Kind {
  const char* name;
  std::vector<std::string> sets;
};

std::vector<Kind> kinds(const TemporaryDirectory& directory) {
  std::string labels, tags, values, pairs;
  for (int i = 0; i < 60; ++i) {
    const std::string word = i % 3 == 0 ? "good" : "bad", n = std::to_string(i * 7 % 13);
    labels += "a " + word + " thing " + n + "\t" + (i % 3 == 0 ? "plus" : "minus") + "\n";
    tags += "the " + word + " " + n + "\tD A N\n";
    values += "count " + n + "\t" + n + ".5\n";
    pairs += std::string(1 + i % 5, 'x') + n + "\t" + n + std::string(1 + i % 5, 'y') + "\n";
  }
  test::put(directory / "labels.tsv", labels);
  test::put(directory / "tags.tsv", tags);
  test::put(directory / "values.tsv", values);
  test::put(directory / "pairs.tsv", pairs);
  const auto text = [&](const char* file) { return "data.text=" + (directory / file).string(); };
  return {
      {"masked", {"model.architecture=encoder", "data.val_fraction=0.01"}},
      {"low rank",
       {"model.architecture=encoder", "model.attention=low_rank", "model.rank=4", "data.task=parity"}},
      {"classification", {"model.architecture=encoder", "data.task=classification", text("labels.tsv")}},
      {"tagging",
       {"model.architecture=encoder", "data.task=tagging", "data.tokenizer=word", text("tags.tsv")}},
      {"regression", {"model.architecture=encoder", "data.task=regression", text("values.tsv")}},
      {"translation",
       {"model.architecture=encoder_decoder", "data.task=translation", "run.batch_tokens=200",
        text("pairs.tsv")}},
      {"copy", {"model.architecture=encoder_decoder", "data.task=copy"}},
      {"sort", {"data.task=sort"}},
      {"gru", {"model.architecture=rnn", "data.task=recall", "data.length=24"}},
      {"lstm", {"model.architecture=rnn", "model.cell=lstm", "data.val_fraction=0.01"}},
      {"bahdanau",
       {"model.architecture=rnn", "model.score=additive", "model.n_layers=1", "data.task=reverse"}},
      {"luong", {"model.architecture=rnn", "model.cell=lstm", "data.task=reverse"}},
      {"vit", {"model.architecture=vit", "data.task=shapes", "data.val_examples=16"}},
  };
}

struct Fixture {
  TemporaryDirectory directory;
  Files files;

  Fixture() {
    test::put(directory / "config.json", R"({
      "model": {"d_model": 16, "n_layers": 2, "n_heads": 2, "context_length": 40, "dropout": 0.2},
      "data": {"val_examples": 32},
      "optim": {"learning_rate": 0.01},
      "schedule": {"warmup_steps": 3, "decay_steps": 20},
      "run": {"max_steps": 20, "batch_size": 4, "grad_accumulation": 2, "eval_interval": 10, "eval_batches": 4}})");
  }

  void run(const std::string& name, std::vector<std::string> sets, bool resumes = false) {
    TrainRequest request;
    if (!resumes) request.config_files = {(directory / "config.json").string()};
    if (!resumes) request.run_dir = directory / name;
    if (resumes) request.resume = (directory / name).string();
    request.sets = std::move(sets);
    CHECK(train(files, request).exit_code == 0);
  }
  std::string weights(const std::string& name) {
    return test::get(directory / name / "ckpt/step-000000020/model.safetensors");
  }
};

}  // namespace

TEST_CASE("every architecture resumes bitwise: 20 steps equal 10, a resume and 10 more") {
  Fixture f;
  for (const Kind& kind : kinds(f.directory)) {
    CAPTURE(kind.name);
    std::vector<std::string> half = kind.sets;
    half.emplace_back("run.max_steps=10");
    const std::string name = kind.name;
    f.run(name + " whole", kind.sets);
    f.run(name + " halves", half);
    f.run(name + " halves", {"run.max_steps=20"}, true);
    CHECK(!f.weights(name + " whole").empty());
    CHECK((f.weights(name + " whole") == f.weights(name + " halves")));
    const Metrics whole = read_run((f.directory / (name + " whole")).string()),
                  halves = read_run((f.directory / (name + " halves")).string());
    REQUIRE(whole.steps.size() == 20);
    REQUIRE(halves.steps.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(whole.steps[i].loss == halves.steps[i].loss);
    REQUIRE(whole.evals.size() == 3);
    REQUIRE(halves.evals.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(whole.evals[i].loss == halves.evals[i].loss);
      REQUIRE(whole.evals[i].metrics.size() == halves.evals[i].metrics.size());
      for (std::size_t k = 0; k < whole.evals[i].metrics.size(); ++k)
        CHECK(whole.evals[i].metrics[k].value == halves.evals[i].metrics[k].value);
    }
  }
}

TEST_CASE("recomputing gives the same bits in every architecture") {
  Fixture f;
  for (const Kind& kind : kinds(f.directory)) {
    CAPTURE(kind.name);
    std::string first;
    for (const char* recompute : {"none", "block", "attention"}) {
      std::vector<std::string> sets = kind.sets;
      sets.emplace_back("run.max_steps=2");
      sets.emplace_back(std::string("run.recompute=") + recompute);
      const std::string name = std::string(kind.name) + recompute;
      f.run(name, sets);
      const std::string now = test::get(f.directory / name / "ckpt/step-000000002/model.safetensors");
      if (first.empty()) first = now;
      CHECK((now == first));
    }
  }
}

TEST_CASE("a trained model says of lines what its task is") {
  Fixture f;
  const std::map<std::string, std::string> lines = {
      {"masked", "One sunny [MASK]ay"}, {"low rank", "1011"},      {"classification", "a good thing 3"},
      {"tagging", "the bad 7"},         {"regression", "count 4"}, {"translation", "xx3"},
      {"copy", "3141592653"},           {"sort", "201021"},        {"gru", "0123456789"},
      {"bahdanau", "3141592653"},       {"luong", "3141592653"}};
  for (const Kind& kind : kinds(f.directory)) {
    const auto line = lines.find(kind.name);
    if (line == lines.end()) continue;
    CAPTURE(kind.name);
    std::vector<std::string> sets = kind.sets;
    sets.emplace_back("run.max_steps=2");
    f.run(kind.name, sets);
    const LoadedRun run = load_run(f.files, f.directory / kind.name, "last");
    Predictor predictor(run, {});
    const auto first = predictor.predict(line->second, {"line 1", ErrorKind::file}, {});
    REQUIRE(first);
    CHECK(predictor.predict(line->second, {"line 1", ErrorKind::file}, {})->text == first->text);
    const std::string name = kind.name;
    if (name == "low rank") CHECK((first->text == "even" || first->text == "odd"));
    if (name == "classification") CHECK((first->text == "plus" || first->text == "minus"));
    if (name == "classification") CHECK((*first->probability >= 0.5 && *first->probability <= 1));
    if (name == "tagging") CHECK(first->tags.size() == 3);
    if (name == "regression") CHECK(first->value.has_value());
    if (name == "sort") CHECK(first->text.size() == 6);
    if (name == "gru") CHECK(first->text.size() == 10);
    if (name == "masked") {
      CHECK(first->text.size() == 13);
      CHECK_THROWS_WITH(predictor.predict("no hole", {"line 1", ErrorKind::file}, {}),
                        Catch::Contains("hides no token"));
    }
    if (name != "masked" && name != "tagging")
      CHECK_THROWS_WITH(predictor.predict(std::string(50, line->second[0]), {"line 7", ErrorKind::file}, {}),
                        Catch::Contains("the line has") && Catch::Contains("the model reads 40"));
  }
}
