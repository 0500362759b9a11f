// Weights that are not finite: made by an update, or found in a checkpoint.
#include <filesystem>
#include <limits>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "error_of.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/model_tensors.hpp"
#include "quern/train/optimizer.hpp"
#include "quern/train/session.hpp"
#include "quern/train/trainer.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::error_of;
using test::TemporaryDirectory;

namespace {

namespace fs = std::filesystem;

constexpr float infinite = std::numeric_limits<float>::infinity();
const std::string tokens = "decoder.embedding.tokens.weight", bias = "decoder.blocks.0.feed_forward.up.bias";

/// A text of 11 characters for a model that knows 64: no step reads the embedding's last rows.
struct Fixture {
  TemporaryDirectory directory;
  Files files;

  Fixture() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 11);
    test::put(directory / "text", text);
    test::put(directory / "config.json", R"({
      "model": {"d_model": 16, "n_layers": 1, "n_heads": 2, "context_length": 16, "vocab_size": 64,
                "tie_embeddings": false},
      "schedule": {"decay_steps": 40},
      "run": {"max_steps": 40, "batch_size": 4, "eval_interval": 0, "checkpoint_interval": 6,
              "keep_checkpoints": 10}})");
  }
  TrainRequest request(const std::string& name, std::vector<std::string> sets = {}) {
    sets.insert(sets.begin(), "data.text=" + (directory / "text").string());
    TrainRequest request;
    request.config_files = {(directory / "config.json").string()};
    request.sets = std::move(sets);
    request.run_dir = directory / name;
    return request;
  }
};

Parameter& parameter(Model& model, const std::string& name) {
  for (Parameter& p : model.parameters().all())
    if (p.name == name) return p;
  FAIL(name);
  throw Bug("unreachable");
}

/// Makes the last number of a parameter infinite once, behind a step, as its update might.
class Saboteur final : public Observer {
 public:
  Saboteur(Model& model, const std::string& name, std::int64_t step)
      : weight_(parameter(model, name)), step_(step) {}
  void on_step(const StepEvent& event) override {
    if (event.step != step_) return;
    weight_.slot.value.f32()[weight_.size() - 1] = infinite;
    step_ = -1;
  }

 private:
  Parameter& weight_;
  std::int64_t step_;
};

/// A run that is sabotaged.
struct Trial {
  RunPlan plan;
  fs::path run;
  Model model;
  CheckpointStore store;

  Trial(Fixture& f, const std::string& name, const std::vector<std::string>& sets)
      : plan(plan_run({(f.directory / "config.json").string()}, f.request(name, sets).sets)),
        run(f.directory / name),
        model(plan.config.model, true, Type::f32),
        store(f.files, run) {
    fs::create_directory(run);
    model.parameters().initialise(plan.config.run.seed);
  }

  int train(Files& files, const std::string& name, std::int64_t step) {
    JsonlWriter metrics(files, run / "metrics.jsonl");
    Saboteur saboteur(model, name, step);
    Observers observers;
    observers.add(metrics);
    observers.add(saboteur);
    Tracer tracer(files, plan.config.run, run / "trace.json");
    Trainer trainer(plan.config, plan.data, model, store, metrics, observers, tracer);
    return trainer.run();
  }
  std::string anomaly() const {
    const Metrics metrics = read_run(run.string());
    REQUIRE(!metrics.anomalies.empty());
    return metrics.anomalies.front().text;
  }
};

}  // namespace

TEST_CASE("a weight that an update makes infinite is never saved, and with rollback the run passes it") {
  Fixture f;
  for (const std::int64_t step : {12, 13, 40})  // a save is due, the next step finds it, the last save
    for (const std::string policy : {"stop", "skip", "rollback"}) {
      CAPTURE(step, policy);
      Trial trial(f, policy + std::to_string(step), {"run.on_nonfinite=" + policy});
      // A step that a bad weight spoils can be skipped, but no later one is better.
      if (policy == "rollback") {
        CHECK(trial.train(f.files, bias, step) == 0);
        CHECK(read_run(trial.run.string()).steps.size() == 40);
      } else {
        CHECK(error_of([&] { trial.train(f.files, bias, step); }).kind == ErrorKind::diverged);
      }
      CHECK(trial.anomaly().find(bias + " (value)") != std::string::npos);
      for (const std::int64_t saved : trial.store.steps()) {
        read_model(open_checkpoint(f.files, trial.store.path_of(saved)), trial.model.parameters());
        CHECK(first_nonfinite_value(trial.model.parameters()).empty());
      }
    }
}

TEST_CASE("a weight that no step reads is found before it is saved, and no single update is blamed") {
  Fixture f;
  Trial unread(f, "unread", {});
  CHECK(error_of([&] { unread.train(f.files, tokens, 9); }).kind == ErrorKind::diverged);
  CHECK(unread.anomaly() ==
        "step 12: a weight is not finite; after step 6 all were; first bad tensor: " + tokens + " (value)");
  CHECK(unread.store.steps() == std::vector<std::int64_t>{6});
  Trial each(f, "each", {"run.checkpoint_interval=1"});
  CHECK(error_of([&] { each.train(f.files, tokens, 9); }).kind == ErrorKind::diverged);
  CHECK(each.anomaly() ==
        "step 9: its update made a weight that is not finite; first bad tensor: " + tokens + " (value)");
}

TEST_CASE("a resume refuses a checkpoint with a weight or a moment that is not finite, and deletes nothing") {
  Fixture f;
  for (const bool moment : {false, true})
    for (const float bad : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
      CAPTURE(moment, bad);
      const std::string name = std::to_string(moment) + std::to_string(bad);
      train(f.files, f.request(name, {"run.max_steps=18"}));
      const fs::path directory = f.directory / name;
      CheckpointStore store(f.files, directory);
      const RunPlan plan = plan_run({(f.directory / "config.json").string()}, f.request(name).sets);
      Model model(plan.config.model, true, Type::f32);
      const fs::path middle = store.path_of(12);
      {
        const LoadedCheckpoint checkpoint = open_checkpoint(f.files, middle);
        read_model(checkpoint, model.parameters());
        read_moments(checkpoint, model.parameters());
        const Parameter& p = parameter(model, bias);
        (moment ? model.parameters().second_moments()
                : model.parameters().values())[p.offset + p.size() - 1] = bad;
        fs::remove_all(middle);
        CheckpointStore(f.files, directory)
            .save({12, model_entries(model.parameters()), optim_entries(model.parameters()),
                   checkpoint.state()});
      }
      const std::string before = test::get(directory / "metrics.jsonl");
      TrainRequest request;
      request.resume = middle.string();
      const Error error = error_of([&] { train(f.files, request); });
      CHECK(error.kind == ErrorKind::file);
      CHECK(std::string(error.what()) ==
            "the checkpoint's numbers are not finite: no training goes on from them; first bad tensor: " +
                std::string(moment ? "v." : "") + bias);
      CHECK(error.place == (middle / (moment ? "optim.safetensors" : "model.safetensors")).string());
      CHECK(store.steps() == std::vector<std::int64_t>{18, 12, 6});
      CHECK(test::get(directory / "metrics.jsonl") == before);
      request.resume = store.path_of(6).string();
      CHECK_NOTHROW(train(f.files, request));
    }
}
