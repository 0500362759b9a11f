// Runs as a user makes them: started, stopped, resumed, refused.
#include "quern/train/session.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/load.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::TemporaryDirectory;

namespace {

/// Sentences enough for a few windows, with dropout on, so that a resume has something to get wrong.
struct Fixture {
  TemporaryDirectory directory;
  Files files;
  std::string text;

  Fixture() {
    for (int i = 0; i < 200; ++i)
      text += "the quick brown fox number " + std::to_string(i * 37 % 101) + " jumps.\n";
    test::put(directory / "text.txt", text);
    test::put(directory / "config.json", R"({
      "model": {"d_model": 16, "n_layers": 2, "n_heads": 2, "context_length": 16, "dropout": 0.2,
                "attention_dropout": 0.1},
      "optim": {"learning_rate": 0.01, "label_smoothing": 0.1},
      "schedule": {"warmup_steps": 3, "decay_steps": 20},
      "run": {"max_steps": 20, "batch_size": 4, "grad_accumulation": 2, "eval_interval": 5, "checkpoint_interval": 4,
              "keep_checkpoints": 10}})");
  }

  int run(const std::string& name, std::vector<std::string> sets = {}, const std::string& resume = "") {
    TrainRequest request;
    if (resume.empty() || resume == "auto") {
      request.config_files = {(directory / "config.json").string()};
      sets.insert(sets.begin(), "data.text=" + (directory / "text.txt").string());
      request.run_dir = directory / name;
    }
    request.sets = std::move(sets);
    request.resume = resume.empty() || resume == "auto" ? resume : (directory / resume).string();
    return train(files, request).exit_code;
  }

  std::string bytes(const std::string& path) { return test::get(directory / path); }
  Metrics metrics(const std::string& name) { return read_run((directory / name).string()); }
};

void check_same_run(Fixture& f, const std::string& a, const std::string& b) {
  const std::string last = "/ckpt/step-000000020/";
  CHECK(f.bytes(a + last + "model.safetensors") == f.bytes(b + last + "model.safetensors"));
  CHECK(f.bytes(a + last + "optim.safetensors") == f.bytes(b + last + "optim.safetensors"));
  CHECK(!f.bytes(a + last + "model.safetensors").empty());
  const Metrics x = f.metrics(a), y = f.metrics(b);
  REQUIRE(x.steps.size() == 20);
  REQUIRE(y.steps.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(x.steps[i].step == y.steps[i].step);
    CHECK(x.steps[i].loss == y.steps[i].loss);
    CHECK(x.steps[i].smoothed_loss == y.steps[i].smoothed_loss);
    CHECK(x.steps[i].grad_norm == y.steps[i].grad_norm);
    CHECK(x.steps[i].lr == y.steps[i].lr);
    CHECK(x.steps[i].tokens == y.steps[i].tokens);
  }
  REQUIRE(x.evals.size() == y.evals.size());
  for (std::size_t i = 0; i < x.evals.size(); ++i) {
    CHECK(x.evals[i].step == y.evals[i].step);
    CHECK(x.evals[i].loss == y.evals[i].loss);
  }
}

int kind_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return static_cast<int>(error.kind);
  }
  return 0;
}

}  // namespace

TEST_CASE("20 steps equal 10 + resume + 10, bitwise, with dropout, smoothing and accumulation on") {
  Fixture f;
  CHECK(f.run("whole") == 0);
  CHECK(f.run("halves", {"run.max_steps=10"}) == 0);
  CHECK(f.run("", {"run.max_steps=20"}, "halves") == 0);
  check_same_run(f, "whole", "halves");
  // Evaluated at step 0, every 5 steps and at the last.
  std::vector<std::int64_t> steps;
  for (const EvalEvent& e : f.metrics("halves").evals) steps.push_back(e.step);
  CHECK(steps == std::vector<std::int64_t>{0, 5, 10, 15, 20});
}

TEST_CASE("a step's phases add up to no more than the step, and its memory is known") {
  Fixture f;
  CHECK(f.run("run") == 0);
  for (const StepEvent& step : f.metrics("run").steps) {
    REQUIRE(step.phases);
    const StepPhases& p = *step.phases;
    for (const double part : {p.data, p.forward, p.backward, p.optimizer}) CHECK(part > 0);
    CHECK(p.data + p.forward + p.backward + p.optimizer <= step.ms);
    CHECK(step.rss > 1 << 20);
    CHECK(step.update_ratio.value() > (step.lr > 0 ? 1e-6 : -1));
    CHECK(step.update_ratio.value() < 1);
  }
}

TEST_CASE("a trace of the profiled steps nests, and its operations add up to the steps") {
  Fixture f;
  CHECK(f.run("run", {"run.profile_steps=[3,8]", "run.max_steps=10", "model.d_model=64", "model.n_heads=4",
                      "model.context_length=64", "run.batch_size=16"}) == 0);
  const auto trace = nlohmann::json::parse(f.bytes("run/trace.json"));
  struct Open {
    double end;
    std::size_t step;  // the step that it lies in, from 1; 0: none
  };
  std::map<int, std::vector<Open>> open;         // by thread
  std::vector<std::pair<double, double>> steps;  // duration, and what operations took
  std::set<std::string> categories;
  for (const auto& event : trace) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    categories.insert(event.at("cat"));
    auto& around = open[event.at("tid")];
    while (!around.empty() && around.back().end <= begin + 0.0015) around.pop_back();
    if (!around.empty()) CHECK(end <= around.back().end + 0.0015);  // times are whole nanoseconds
    std::size_t step = around.empty() ? 0 : around.back().step;
    if (event["cat"] == "step") {
      steps.emplace_back(event.at("dur"), 0);
      step = steps.size();
    }
    around.push_back({end, step});
    const bool operation = event["args"].contains("bytes") || event["name"] == "batch";
    if (operation && step > 0 && event["tid"] == 0) steps[step - 1].second += event.at("dur").get<double>();
  }
  REQUIRE(steps.size() == 6);
  double best = 0;  // a machine that does something else between two slices spoils a step, not all
  for (const auto& [duration, operations] : steps) {
    CHECK(operations <= duration);
    best = std::max(best, operations / duration);
  }
  CHECK(best > 0.97);
  for (const char* category : {"data", "forward", "backward", "optimizer", "evaluation", "checkpoint"})
    CHECK(categories.contains(category));
}

TEST_CASE("a resume from an older checkpoint makes the same future again") {
  Fixture f;
  CHECK(f.run("whole") == 0);
  CHECK(f.run("other") == 0);
  CHECK(f.run("", {}, "other/ckpt/step-000000008") == 0);
  check_same_run(f, "whole", "other");
}

TEST_CASE("resuming a run that is complete changes nothing") {
  Fixture f;
  CHECK(f.run("whole") == 0);
  CHECK(f.run("again") == 0);
  CHECK(f.run("", {}, "again") == 0);
  check_same_run(f, "whole", "again");
}

TEST_CASE("a run that ended between its last checkpoint and \"latest\" has both after a resume") {
  Fixture f;
  CHECK(f.run("run") == 0);
  REQUIRE(f.bytes("run/latest") == "ckpt/step-000000020\n");
  test::put(f.directory / "run/latest", "ckpt/step-000000016\n");
  CHECK(f.run("", {}, "run") == 0);
  CHECK(f.bytes("run/latest") == "ckpt/step-000000020\n");
  std::filesystem::remove(f.directory / "run/latest");
  CHECK(f.run("", {}, "run") == 0);
  CHECK(f.bytes("run/latest") == "ckpt/step-000000020\n");
}

TEST_CASE("a setting that another one leaves without effect is named, and nothing else is") {
  Fixture f;
  const auto warnings = [&](const std::string& name) {
    std::string texts;
    std::istringstream lines(f.bytes(name + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto event = nlohmann::json::parse(line); event.at("event") == "warning")
        texts += event.at("text").get<std::string>() + "\n";
    return texts;
  };
  CHECK(f.run("plain", {"run.max_steps=1"}) == 0);
  CHECK(warnings("plain").empty());
  CHECK(f.run("idle", {"run.max_steps=1", "optim.muon_momentum=0.9", "schedule.power=2",
                       "schedule.warmup_steps=0", "model.rope_theta=500000"}) == 0);
  CHECK(warnings("idle") ==
        "model.rope_theta (500000.0) has no effect with model.position \"learned\"\n"
        "optim.muon_momentum (0.9) has no effect with optim.optimizer \"adamw\"\n"
        "schedule.power (2.0) has no effect with schedule.kind \"cosine\"\n");
  CHECK(f.run("used", {"run.max_steps=1", "optim.optimizer=muon", "optim.muon_momentum=0.9"}) == 0);
  CHECK(warnings("used").empty());
}

TEST_CASE("auto starts what does not exist and resumes what does; a run without a checkpoint begins again") {
  Fixture f;
  CHECK(f.run("whole") == 0);
  CHECK(f.run("auto", {}, "auto") == 0);
  std::filesystem::remove_all(f.directory / "auto/ckpt");
  CHECK(f.run("auto", {}, "auto") == 0);
  check_same_run(f, "whole", "auto");
}

TEST_CASE("in bf16, too, 10 steps, a resume and 10 more are 20 steps, bit for bit") {
  Fixture f;
  CHECK(f.run("whole", {"run.precision=bf16"}) == 0);
  CHECK(f.run("half", {"run.precision=bf16", "run.max_steps=10"}) == 0);
  CHECK(f.run("", {"run.max_steps=20"}, "half") == 0);
  check_same_run(f, "whole", "half");
  CHECK(f.metrics("whole").start->precision == "bf16");
  CHECK(kind_of([&] { f.run("", {"run.precision=f32"}, "half"); }) == 7);
}

TEST_CASE("with muon and wsd, too, 10 steps, a resume and 10 more are 20 steps, bit for bit") {
  Fixture f;
  const std::vector<std::string> sets = {"optim.optimizer=muon", "schedule.kind=wsd"};
  const auto with = [&sets](std::vector<std::string> more) {
    more.insert(more.begin(), sets.begin(), sets.end());
    return more;
  };
  REQUIRE(f.run("whole", sets) == 0);
  REQUIRE(f.run("halves", with({"run.max_steps=10"})) == 0);
  REQUIRE(f.run("", {"run.max_steps=20"}, "halves") == 0);
  check_same_run(f, "whole", "halves");
}

TEST_CASE("favor's random features are drawn once, saved, never trained, and resumed, bit for bit") {
  for (const std::string optimizer : {"adamw", "muon"}) {
    Fixture f;
    std::vector<std::string> sets = {"model.attention=linear", "model.feature_map=favor",
                                     "model.attention_dropout=0", "optim.optimizer=" + optimizer};
    REQUIRE(f.run("whole", sets) == 0);
    sets.push_back("run.max_steps=10");
    REQUIRE(f.run("halves", sets) == 0);
    REQUIRE(f.run("", {"run.max_steps=20"}, "halves") == 0);
    check_same_run(f, "whole", "halves");
    const auto drawn = [&f](const std::string& step) {
      const LoadedRun run = load_run(f.files, f.directory / "whole", step);
      std::vector<float> numbers;
      for (const Parameter& p : run.model->parameters().all())
        if (p.fixed) numbers.insert(numbers.end(), p.slot.value.f32(), p.slot.value.f32() + p.size());
      return numbers;
    };
    CHECK(drawn("20").size() == 2 * 24 * 8);  // layers, features (8 ln 8 rounded up), head size
    CHECK(drawn("20") == drawn("4"));
    const std::string last = "whole/ckpt/step-000000020/";
    CHECK(f.bytes(last + "model.safetensors").find("favor.directions") != std::string::npos);
    CHECK(f.bytes(last + "optim.safetensors").find("favor.directions") == std::string::npos);
  }
}

TEST_CASE("a resume that is refused deletes nothing") {
  Fixture f;
  CHECK(f.run("run") == 0);
  CHECK(f.run("other", {"model.d_model=8"}) == 0);
  const std::string last = f.bytes("run/ckpt/step-000000020/model.safetensors");
  const std::string metrics = f.bytes("run/metrics.jsonl");
  const std::string config = f.bytes("run/config.resolved.json");
  CHECK(kind_of([&] { f.run("", {"run.max_steps=5"}, "run/ckpt/step-000000008"); }) == 7);
  // Intact, and another model's.
  const std::string step = "ckpt/step-000000008";
  std::filesystem::rename(f.directory / "run" / step, f.directory / "mine");
  std::filesystem::copy(f.directory / "other" / step, f.directory / "run" / step);
  CHECK(kind_of([&] { f.run("", {"run.max_steps=30"}, "run/" + step); }) == 3);
  CHECK(f.bytes("run/config.resolved.json") == config);
  test::put(f.directory / "text.txt", f.text + "x");
  CHECK(kind_of([&] { f.run("", {}, "run/ckpt/step-000000008"); }) == 7);
  CHECK(f.bytes("run/ckpt/step-000000020/model.safetensors") == last);
  CHECK(f.bytes("run/metrics.jsonl") == metrics);
}

TEST_CASE("what a resume may change, and what not") {
  Fixture f;
  CHECK(f.run("run", {"run.max_steps=4"}) == 0);
  CHECK(f.run("", {"run.max_steps=5", "run.threads=1", "run.eval_interval=1", "watch.log_interval=3"},
              "run") == 0);
  try {
    f.run("", {"optim.learning_rate=0.5"}, "run");
    FAIL("accepted another learning rate");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::run);
    CHECK(std::string(error.what()).find("optim.learning_rate") != std::string::npos);
    CHECK(std::string(error.what()).find("0.5") != std::string::npos);
  }
  CHECK(kind_of([&] { f.run("", {"run.max_steps=2"}, "run"); }) == 7);
  CHECK(f.run("", {}, "run") == 0);  // max_steps 5 has stayed
  CHECK(kind_of([&] { f.run("", {}, "run/ckpt/step-000000099"); }) == 7);
  test::put(f.directory / "text.txt", f.text + "x");
  CHECK(kind_of([&] { f.run("", {"run.max_steps=9"}, "run"); }) == 7);  // another corpus
  CHECK(kind_of([&] { f.run("", {}, "nothing-there"); }) == 7);
  CHECK(kind_of([&] { f.run("run"); }) == 7);  // in the way of a new run
}

TEST_CASE("max_steps 0 initialises, evaluates, saves step 0 and ends well") {
  Fixture f;
  CHECK(f.run("zero", {"run.max_steps=0", "schedule.warmup_steps=0", "schedule.decay_steps=0"}) == 0);
  CHECK(std::filesystem::exists(f.directory / "zero/ckpt/step-000000000/manifest.json"));
  CHECK(f.metrics("zero").end->status == "completed");
  CHECK(load_run(f.files, f.directory / "zero", "last").step == 0);
}

TEST_CASE("numbers that diverge stop before the update, and the last good checkpoint is intact") {
  Fixture f;
  const std::vector<std::string> wild = {"optim.learning_rate=1e6",   "optim.grad_clip=0",
                                         "schedule.warmup_steps=0",   "schedule.kind=constant",
                                         "run.checkpoint_interval=1", "run.max_steps=500"};
  CHECK(kind_of([&] { f.run("wild", wild); }) == 5);
  const Metrics metrics = f.metrics("wild");
  CHECK(metrics.end->status == "diverged");
  const LoadedRun last = load_run(f.files, f.directory / "wild", "last");
  CHECK(last.step == metrics.end->step);
  for (const Parameter& p : last.model->parameters().all())
    for (std::int64_t i = 0; i < p.size(); ++i) REQUIRE(std::isfinite(p.slot.value.f32()[i]));
}

TEST_CASE("best is a checkpoint, and pruning keeps it") {
  Fixture f;
  // A rate that spoils the model after it has learned something: the best is not among the last.
  CHECK(f.run("best", {"schedule.kind=constant", "schedule.warmup_steps=0", "optim.learning_rate=0.03",
                       "run.max_steps=40", "run.eval_interval=1", "run.checkpoint_interval=1",
                       "run.keep_checkpoints=2", "optim.grad_clip=0"}) == 0);
  const Metrics metrics = f.metrics("best");
  double lowest = 1e9;
  std::int64_t step = 0;
  for (const EvalEvent& e : metrics.evals)
    if (e.step > 0 && e.loss < lowest) lowest = e.loss, step = e.step;
  CHECK(load_run(f.files, f.directory / "best", "best").step == step);
  CHECK(metrics.end->best_step == step);
}

TEST_CASE("a text of exactly one window trains without validation") {
  Fixture f;
  test::put(f.directory / "text.txt", f.text.substr(0, 17));
  CHECK(f.run("one", {"data.val_fraction=0", "run.max_steps=3", "schedule.decay_steps=3",
                      "schedule.warmup_steps=0"}) == 0);
  CHECK(f.metrics("one").steps.size() == 3);
  CHECK(f.metrics("one").evals.empty());
}
