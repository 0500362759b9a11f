// What a run does about numbers that are not finite, through whole runs.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "error_of.hpp"
#include "quern/train/load.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::error_of;
using test::TemporaryDirectory;

namespace {

/// Lines with a number to tell. Those that are `bad` have one whose error has a square beyond any float, so
/// that each batch that meets one is not finite.
struct Fixture {
  TemporaryDirectory directory;
  Files files;

  explicit Fixture(const std::vector<int>& bad) {
    std::string lines;
    for (int i = 0; i < 400; ++i) {
      const bool is_bad = std::find(bad.begin(), bad.end(), i) != bad.end();
      lines +=
          "count " + std::to_string(i * 7 % 13) + "\t" + (is_bad ? "1e30" : std::to_string(i % 3)) + "\n";
    }
    test::put(directory / "values.tsv", lines);
    test::put(directory / "config.json", R"({
      "model": {"architecture": "encoder", "d_model": 16, "n_layers": 1, "n_heads": 2, "context_length": 16,
                "dropout": 0.2},
      "data": {"task": "regression", "order": "shuffle"},
      "optim": {"learning_rate": 0.01, "grad_clip": 0},
      "schedule": {"warmup_steps": 3, "decay_steps": 40},
      "run": {"max_steps": 40, "batch_size": 4, "eval_interval": 0, "checkpoint_interval": 6,
              "keep_checkpoints": 10}})");
  }

  void run(const std::string& name, std::vector<std::string> sets, const std::string& resume = "") {
    TrainRequest request;
    if (resume.empty()) {
      request.config_files = {(directory / "config.json").string()};
      sets.insert(sets.begin(), "data.text=" + (directory / "values.tsv").string());
      request.run_dir = directory / name;
    } else {
      request.resume = (directory / name).string();
    }
    request.sets = std::move(sets);
    train(files, request);
  }
  Metrics metrics(const std::string& name) { return read_run((directory / name).string()); }
  std::string weights(const std::string& name, const std::string& step = "000000040") {
    return test::get(directory / name / "ckpt" / ("step-" + step) / "model.safetensors") +
           test::get(directory / name / "ckpt" / ("step-" + step) / "optim.safetensors");
  }
};

/// Steps and anomalies, without times.
std::vector<std::string> story(const Fixture& f, const std::string& name) {
  std::vector<std::string> lines;
  std::istringstream metrics(test::get(f.directory / name / "metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    auto event = nlohmann::json::parse(line);
    if (event.at("event") != "step" && event.at("event") != "anomaly") continue;
    for (const char* measured : {"time", "ms", "data_ms", "forward_ms", "backward_ms", "optimizer_ms", "rss",
                                 "tokens_per_second", "seconds"})
      event.erase(measured);
    lines.push_back(event.dump());
  }
  return lines;
}

void check_steps(const Metrics& metrics, std::size_t count) {
  REQUIRE(metrics.steps.size() == count);
  for (std::size_t i = 0; i < count; ++i) CHECK(metrics.steps[i].step == static_cast<std::int64_t>(i + 1));
}

const std::string skip = "run.on_nonfinite=skip", rollback = "run.on_nonfinite=rollback";

}  // namespace

TEST_CASE("stop: exit 5 names the step, the tensor and the examples, and the run can be looked at") {
  Fixture f({125});
  const Error error = error_of([&] { f.run("run", {}); });
  const std::string message = error.what();
  CHECK(error.kind == ErrorKind::diverged);
  const Metrics metrics = f.metrics("run");
  REQUIRE(metrics.anomalies.size() == 1);
  const AnomalyEvent& anomaly = metrics.anomalies.front();
  CHECK(anomaly.kind == "nonfinite");
  CHECK(anomaly.action == "stop");
  CHECK(anomaly.step == static_cast<std::int64_t>(metrics.steps.size()) + 1);
  CHECK(anomaly.text == message);
  const std::string begin = "step " + std::to_string(anomaly.step) + ": the gradient";
  CHECK(message.starts_with(begin));
  CHECK(message.find("first bad tensor: ") != std::string::npos);
  const std::size_t list = message.find("the training examples ");
  REQUIRE(list != std::string::npos);
  CHECK((message.substr(list) + ",").find(" 125,") != std::string::npos);
  CHECK(metrics.end->status == "diverged");
  CHECK(metrics.end->step == anomaly.step - 1);
  CHECK_NOTHROW(load_run(f.files, f.directory / "run", "last"));
}

TEST_CASE("skip: the step counts and is not applied, and a resume tells the same story") {
  Fixture f({125});
  f.run("whole", {skip});
  const Metrics metrics = f.metrics("whole");
  check_steps(metrics, 40);
  REQUIRE(metrics.anomalies.size() == 1);  // 160 rows of the 360 examples: each at most once
  for (const AnomalyEvent& anomaly : metrics.anomalies) {
    CHECK(anomaly.action == "skip");
    const StepEvent& step = metrics.steps.at(static_cast<std::size_t>(anomaly.step - 1));
    CHECK(step.grad_norm > 1e20);
    CHECK(step.tokens == 4 * step.step);
  }
  const std::int64_t bad = metrics.anomalies.front().step;
  f.run("pieces", {skip, "run.max_steps=" + std::to_string(bad)});
  f.run("pieces", {"run.max_steps=" + std::to_string(bad + 1)}, "resume");
  f.run("pieces", {"run.max_steps=40"}, "resume");
  CHECK(story(f, "pieces") == story(f, "whole"));
  CHECK((f.weights("pieces") == f.weights("whole")));
}

TEST_CASE("skip: after three steps in a row the fourth one stops the run, also across a resume") {
  std::vector<int> all;
  for (int i = 0; i < 360; ++i) all.push_back(i);
  Fixture f(all);
  CHECK(error_of([&] { f.run("run", {skip}); }).kind == ErrorKind::diverged);
  CHECK(f.metrics("run").steps.size() == 3);
  CHECK(f.metrics("run").anomalies.size() == 4);
  CHECK(f.metrics("run").anomalies.back().action == "stop");
  f.run("two", {skip, "run.max_steps=2", "schedule.warmup_steps=0"});
  CHECK(error_of([&] { f.run("two", {"run.max_steps=40"}, "resume"); }).kind == ErrorKind::diverged);
  CHECK(f.metrics("two").steps.size() == 3);
}

TEST_CASE("rollback: the run goes on from its checkpoint with the batches behind the bad one") {
  for (const char* interval : {"run.checkpoint_interval=6", "run.checkpoint_interval=1000"}) {
    Fixture f({125});
    f.run("whole", {rollback, interval});
    const Metrics metrics = f.metrics("whole");
    check_steps(metrics, 40);
    REQUIRE(!metrics.anomalies.empty());
    const AnomalyEvent& anomaly = metrics.anomalies.front();
    CHECK(anomaly.action == "rollback");
    REQUIRE(anomaly.after);
    CHECK(*anomaly.after < anomaly.step);
    CHECK(*anomaly.after % 6 == 0);
    for (const StepEvent& step : metrics.steps) CHECK(step.grad_norm < 1e10);

    // Stopped before, at and behind the place to which it went back: the same story.
    const std::int64_t bad = anomaly.step;
    for (const std::int64_t at : {*anomaly.after + 1, bad - 1, bad, bad + 1}) {
      CAPTURE(interval, at, bad);
      const std::string name = "pieces " + std::to_string(at);
      f.run(name, {rollback, interval, "run.max_steps=" + std::to_string(at), "schedule.warmup_steps=0"});
      f.run(name, {"run.max_steps=40"}, "resume");
      check_steps(f.metrics(name), 40);
    }
  }
}

TEST_CASE("rollback: the batches are those that come after the bad one in a run without it") {
  Fixture f({125}), healthy({});
  // A model that does not change: a step's loss tells its batch.
  const std::vector<std::string> still = {rollback, "optim.learning_rate=0", "model.dropout=0",
                                          "run.max_steps=30"};
  f.run("run", still);
  healthy.run("run", still);
  const Metrics went_back = f.metrics("run"), straight = healthy.metrics("run");
  REQUIRE(went_back.anomalies.size() == 1);
  const std::int64_t bad = went_back.anomalies.front().step, back = *went_back.anomalies.front().after;
  CHECK(straight.anomalies.empty());
  for (std::int64_t step = 1; step <= 30; ++step) {
    const std::int64_t batch = step <= back ? step : step + bad - back;
    if (batch > 30) break;
    CHECK(went_back.steps.at(std::size_t(step - 1)).loss == straight.steps.at(std::size_t(batch - 1)).loss);
  }
}

TEST_CASE("rollback: a resume of any moment after it goes on with the same batches, bit for bit") {
  Fixture f({125});
  f.run("whole", {rollback});
  const Metrics metrics = f.metrics("whole");
  const std::int64_t bad = metrics.anomalies.front().step, back = *metrics.anomalies.front().after;
  // The checkpoint to which it went back stands as it was: from there the same is done again.
  std::filesystem::copy(f.directory / "whole", f.directory / "again",
                        std::filesystem::copy_options::recursive);
  for (const std::int64_t from : {back, back + 6, back + 12}) {
    char step[32];
    std::snprintf(step, sizeof step, "step-%09d", static_cast<int>(from));
    CAPTURE(bad, from);
    TrainRequest request;
    request.resume = (f.directory / "again/ckpt" / step).string();
    train(f.files, request);
    CHECK(story(f, "again") == story(f, "whole"));
    CHECK((f.weights("again") == f.weights("whole")));
  }
}

TEST_CASE("rollback: three times without passing the step, then exit 5; every rollback is in the metrics") {
  std::vector<int> all;
  for (int i = 0; i < 360; ++i) all.push_back(i);
  Fixture f(all);
  const Error error = error_of([&] { f.run("run", {rollback}); });
  CHECK(error.kind == ErrorKind::diverged);
  CHECK(std::string(error.what()).find("gone back 3 times without passing step 1") != std::string::npos);
  const Metrics metrics = f.metrics("run");
  CHECK(metrics.steps.empty());
  REQUIRE(metrics.anomalies.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(metrics.anomalies[i].action == (i < 3 ? "rollback" : "stop"));
  CHECK(metrics.end->status == "diverged");
}
