// A run goes on from an intact checkpoint, whatever has become of its metrics; and what is left of them is
// kept.
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "error_of.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/curves.hpp"
#include "quern/watch/metrics.hpp"
#include "quern/watch/report.hpp"

using namespace quern;
using test::error_of;
using test::TemporaryDirectory;

namespace {

namespace fs = std::filesystem;

struct Fixture {
  TemporaryDirectory directory;
  Files files;
  fs::path run = directory / "run", metrics = run / "metrics.jsonl", whole = directory / "whole";

  Fixture() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 11);
    test::put(directory / "text", text);
    start(whole, 16);
    start(run, 12);
  }
  void start(const fs::path& path, int steps, const std::vector<std::string>& more = {}) {
    TrainRequest request;
    request.sets = {"data.text=" + (directory / "text").string(),
                    "run.max_steps=" + std::to_string(steps),
                    "schedule.decay_steps=16",
                    "model.d_model=8",
                    "model.n_layers=1",
                    "model.n_heads=1",
                    "model.context_length=8",
                    "model.dropout=0.1",
                    "run.batch_size=2",
                    "run.eval_interval=4",
                    "run.checkpoint_interval=4",
                    "run.keep_checkpoints=10"};
    request.sets.insert(request.sets.end(), more.begin(), more.end());
    request.run_dir = path;
    train(files, request);
  }
  void resume(const std::string& checkpoint = "", int steps = 16) {
    TrainRequest request;
    request.resume = (run / checkpoint).string();
    request.sets = {"run.max_steps=" + std::to_string(steps)};
    const int code = train(files, request).exit_code;
    CHECK(code == 0);
  }
  std::string weights(const fs::path& of) {
    return test::get(of / "ckpt/step-000000016/model.safetensors") +
           test::get(of / "ckpt/step-000000016/optim.safetensors");
  }
  std::vector<std::int64_t> steps() {
    std::vector<std::int64_t> steps;
    for (const StepEvent& step : read_run(run.string()).steps) steps.push_back(step.step);
    return steps;
  }
  std::string warning() {
    const Metrics read = read_run(run.string());
    return read.warnings.empty() ? "" : read.warnings.back().text;
  }
  /// The byte behind the line of a step.
  std::size_t behind(std::int64_t step) {
    const std::string text = test::get(metrics);
    const std::size_t at = text.find("\"step\":" + std::to_string(step) + ",\"tokens\"");
    REQUIRE(at != std::string::npos);
    return text.find('\n', at) + 1;
  }
  void check_whole() { CHECK((weights(run) == weights(whole))); }
};

std::vector<std::int64_t> from_to(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = from; i <= to; ++i) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("without its metrics a run goes on to the same weights, and its new metrics serve who reads them") {
  Fixture f;
  fs::remove(f.metrics);
  f.resume();
  f.check_whole();
  CHECK(f.steps() == from_to(13, 16));
  CHECK(f.warning() ==
        f.metrics.string() + " is missing: it begins anew, and what it told of the steps up to 12 is lost");
  const Metrics read = read_run(f.run.string());
  REQUIRE(read.start);
  CHECK(read.start->parameters == read_run(f.whole.string()).start->parameters);
  CHECK(read.start->max_steps == 16);
  CHECK(read.evals.back().step == 16);
  CHECK_NOTHROW(
      write_report(f.files, f.directory / "page.html", read_report_runs(f.files, {f.run.string()})));
  CHECK_FALSE(loss_picture(read_runs({f.run.string()}), {}).empty());
  // With nothing more to do, and from any checkpoint: each step at most once, and no step of another future.
  f.resume();
  CHECK(f.steps() == from_to(13, 16));
  f.resume("ckpt/step-000000012");
  CHECK(f.steps() == from_to(13, 16));
  f.resume("ckpt/step-000000008");
  CHECK(f.steps() == from_to(9, 16));
  f.check_whole();
}

TEST_CASE("of metrics that are shorter than the checkpoint says the whole lines are kept") {
  Fixture f;
  const std::size_t kept = f.behind(7);
  fs::resize_file(f.metrics, kept + 20);
  f.resume();
  f.check_whole();
  std::vector<std::int64_t> steps = from_to(1, 7);
  for (const std::int64_t step : from_to(13, 16)) steps.push_back(step);
  CHECK(f.steps() == steps);
  CHECK(f.warning().starts_with(f.metrics.string() + " is not as the checkpoint of step 12 left it: of its " +
                                std::to_string(kept + 20) + " bytes (then "));
  CHECK(f.warning().ends_with(") " + std::to_string(kept) + " are kept, and steps may be missing in it"));
  f.resume("ckpt/step-000000004");  // of before: what is beyond is made again
  CHECK(f.steps() == from_to(1, 16));
  f.check_whole();
}

TEST_CASE("metrics of another length in which some lines are missing keep the others") {
  Fixture f;
  const std::string text = test::get(f.metrics);
  test::put(f.metrics, text.substr(0, f.behind(3)) + text.substr(f.behind(4)));
  f.resume();
  std::vector<std::int64_t> steps = from_to(1, 16);
  steps.erase(steps.begin() + 3);
  CHECK(f.steps() == steps);
  f.check_whole();
}

TEST_CASE(
    "metrics that are wrong before the cut are not trusted: the resume is refused, and changes nothing") {
  Fixture f;
  const std::string text = test::get(f.metrics);
  const std::size_t at = f.behind(3);
  for (const std::string& damaged :
       {std::string("no metrics"), std::string(100, '\0'), std::string(text.size() * 2, '\0'),
        text.substr(0, at) + "garbage\n", text.substr(0, at) + "garbage\n" + text.substr(at),
        "garbage\n" + text, text.substr(0, at) + "[1]\n" + text.substr(at),
        text.substr(0, at) + text.substr(0, at)}) {
    test::put(f.metrics, damaged);
    const Error error = error_of([&] { f.resume("ckpt/step-000000008"); });
    CAPTURE(damaged.substr(0, 300), error.what());
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place.starts_with(f.metrics.string()));
    CHECK(error.hint == "restore the file, or move it away: the run then goes on without what it told");
    CHECK((test::get(f.metrics) == damaged));
    CHECK(fs::exists(f.run / "ckpt/step-000000012"));
  }
  fs::remove(f.metrics);
  f.resume();
  f.check_whole();
}

TEST_CASE(
    "metrics of other steps that happen to end a line where the checkpoint says are not taken for its own") {
  Fixture f;
  const std::string text = test::get(f.metrics);
  const std::size_t at = f.behind(12);
  // As long as before, but of the steps up to 3 only.
  std::string longer = text.substr(0, f.behind(3));
  longer += R"({"event":"warning","step":3,"text":")";
  longer += std::string(at - longer.size() - 3, '.') + "\"}\n";
  REQUIRE(longer.size() == at);
  test::put(f.metrics, longer + text.substr(at));
  f.resume();
  f.check_whole();
  CHECK(f.warning().find("is not as the checkpoint of step 12 left it") != std::string::npos);
}

TEST_CASE("a rollback after a resume without metrics cuts where its checkpoint's step ends") {
  Fixture f;
  // One of the numbers to tell is so large that no step with it is finite.
  const std::vector<std::string> sets = {"model.architecture=encoder",
                                         "data.task=regression",
                                         "data.order=shuffle",
                                         "run.on_nonfinite=rollback",
                                         "optim.grad_clip=0",
                                         "model.context_length=16",
                                         "data.text=" + (f.directory / "values.tsv").string()};
  const auto write = [&](int bad) {
    std::string lines;
    for (int i = 0; i < 200; ++i)
      lines += "count " + std::to_string(i % 13) + "\t" + (i == bad ? "1e30" : "1") + "\n";
    test::put(f.directory / "values.tsv", lines);
  };
  // A line that comes in the steps 5 to 8, whichever it is: the run goes back to the step of its resume.
  int tried = 0;
  for (int bad = 0; bad < 200 && tried < 2; ++bad) {
    write(bad);
    fs::remove_all(f.run);
    f.start(f.run, 4, sets);
    if (!read_run(f.run.string()).anomalies.empty()) continue;
    fs::remove(f.metrics);
    f.resume("", 12);
    const Metrics read = read_run(f.run.string());
    if (read.anomalies.empty() || read.anomalies.front().step > 8) continue;
    ++tried;
    CAPTURE(bad);
    CHECK(read.anomalies.front().after == 4);
    CHECK(read.resumes == std::vector<std::int64_t>{4});
    CHECK(f.steps() == from_to(5, 12));
  }
  CHECK(tried == 2);
}
