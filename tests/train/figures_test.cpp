// The figures that the shipped configs of tasks reach, and what the README says of them. Minutes each, so
// only by name:  train_tests "[figures]"
#include <algorithm>
#include <map>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/load.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::TemporaryDirectory;

namespace {

/// Trains a shipped config to its end; the last evaluation's metrics.
std::map<std::string, double> trained(const TemporaryDirectory& directory, const std::string& config) {
  Files files;
  TrainRequest request;
  request.config_files = {QUERN_SOURCE_DIR "/configs/" + config + ".json"};
  request.run_dir = directory / config;
  CHECK(train(files, request).exit_code == 0);
  std::map<std::string, double> found;
  const Metrics metrics = read_run(request.run_dir.string());
  for (const TaskMetric& metric : metrics.evals.back().metrics) found[metric.name] = metric.value;
  return found;
}

/// The weights of the cross-attention of one layer, a mean over heads, while the true answer is read  //
/// (T,S)
std::vector<double> looks(const Model& model, std::int64_t layer, const Example& example) {
  AttentionProbe probe;
  probe.layers = {layer};
  const auto length = [](const std::vector<std::int32_t>& ids) {
    return static_cast<std::int64_t>(ids.size());
  };
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  Memory memory = model.encode(tape, {example.source.data(), 1, length(example.source)});
  memory.probe = &probe;
  model.logits(tape, {example.inputs.data(), 1, length(example.inputs)}, nullptr, nullptr, memory);
  std::vector<double> mean(example.inputs.size() * example.source.size());
  for (const auto& head : probe.found)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(head.weights[i]);
  return mean;
}

}  // namespace

TEST_CASE("sort: every one of 5,000 unseen rows is sorted", "[.][figures]") {
  TemporaryDirectory directory;
  CHECK(trained(directory, "sort")["exact_match"] == 1);
}

TEST_CASE("copy: all of 1,000 unseen rows; reverse: at least 99.9 %", "[.][figures]") {
  TemporaryDirectory directory;
  CHECK(trained(directory, "copy")["exact_match"] == 1);
  CHECK(trained(directory, "reverse")["exact_match"] >= 0.999);
}

TEST_CASE("modular: the unseen half of the table to 99 % in under 150 epochs", "[.][figures]") {
  TemporaryDirectory directory;
  CHECK(trained(directory, "modular")["accuracy"] >= 0.99);
}

TEST_CASE("shapes: at least 99 % of unseen drawings", "[.][figures]") {
  TemporaryDirectory directory;
  CHECK(trained(directory, "shapes")["accuracy"] >= 0.99);
}

TEST_CASE("masked-toy: at least 92 % of hidden characters", "[.][figures]") {
  TemporaryDirectory directory;
  CHECK(trained(directory, "masked-toy")["accuracy"] >= 0.92);
}

TEST_CASE("dates: at least 99.5 % of unseen days, and the month's digits look at the month", "[.][figures]") {
  TemporaryDirectory directory;
  CHECK(trained(directory, "dates")["exact_match"] >= 0.995);
  Files files;
  const LoadedRun run = load_run(files, directory / "dates", "last");
  const Problems problems(problem_options(run.config.data, run.config.run.seed));
  const PairFraming framing(run.tokenizer, Framing::memory, false);
  const std::int64_t last = run.config.model.n_layers - 1;
  int right = 0;
  constexpr int asked = 200;
  for (int i = 0; i < asked; ++i) {
    const Problem problem = problems.at(Split::val, i);
    Example example;
    framing.frame(problem.question, problem.answer, {}, example);
    const auto weights = looks(*run.model, last, example);
    const auto row =
        weights.begin() + 6 * static_cast<std::ptrdiff_t>(example.source.size());  // "1994-05": the 5
    const auto peak = static_cast<std::size_t>(
        std::max_element(row, row + static_cast<std::ptrdiff_t>(example.source.size())) - row);
    const auto [begin, end] = month_in(problem);
    right += peak >= begin && peak < end;
  }
  CAPTURE(right);
  CHECK(right >= asked * 9 / 10);
}
