#include "quern/watch/curves.hpp"

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;

namespace {

NamedMetrics run(const std::string& name, int steps, std::optional<double> floor = std::nullopt) {
  NamedMetrics named{name, {}};
  named.metrics.start.emplace();
  named.metrics.start->entropy_floor = floor;
  named.metrics.evals.push_back({0, "val", 4.0, 1, 0.5, true});
  for (int step = 1; step <= steps; ++step) {
    StepEvent event;
    event.step = step;
    event.tokens = 1000 * step;
    event.loss = 1 + 3 * std::exp(-step / 20.0);
    event.lr = 1e-3 * step / steps;
    event.grad_norm = 0.5;
    event.ms = 60000;
    event.tokens_per_second = 20000;
    named.metrics.steps.push_back(event);
  }
  named.metrics.evals.push_back({steps / 2, "val", 1.5, 1, 0.5, true});
  named.metrics.evals.push_back({steps, "val", 1.75, 1, 0.5, false});
  return named;
}

CurveOptions ascii(Metric metric = Metric::loss, XAxis x = XAxis::step) {
  return {metric, x, std::nullopt, {100, 8, false, false}};
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("one run: raw points, smoothed line, validation and floor") {
  const std::string text = curves_picture({run("toy", 100, 0.9)}, ascii());
  CAPTURE(text);
  CHECK(holds(text, " loss (nats per token) - toy\n"));
  CHECK(holds(text, ".. each step"));
  // 3 e^-5 0.5 / (1 - 0.5 e^0.05) above 1
  CHECK(holds(text, "** train 1.021 (smoothing 0.5)"));
  CHECK(holds(text, "o val 1.750 (best 1.500 at step 50)"));
  CHECK(holds(text, "-- entropy of the text 0.900"));
  CHECK(holds(text, "-----*"));
}

TEST_CASE("without smoothing the line is the raw points; a weight that is given is used") {
  CurveOptions options = ascii();
  options.smoothing = 0;
  CHECK_FALSE(holds(curves_picture({run("toy", 100)}, options), "each step"));
  CHECK_FALSE(holds(curves_picture({run("toy", 20)}, ascii()), "each step"));
  options.smoothing = 0.8;
  CHECK(holds(curves_picture({run("toy", 20)}, options), "(smoothing 0.8)"));
}

TEST_CASE("several runs have a line of the legend each; a floor only when they agree") {
  const std::string text =
      curves_picture({run("one", 100, 0.9), run("two", 80, 0.9), run("old", 60)}, ascii());
  CAPTURE(text);
  CHECK(holds(text, " loss (nats per token)\n"));
  CHECK(holds(text, "\n aa one: train 1.021   A val 1.750 (best 1.500 at step 50)\n bb two: train"));
  CHECK(holds(text, "\n -- entropy of the text 0.900\n"));
  CHECK_FALSE(holds(curves_picture({run("one", 100, 0.9), run("two", 80, 0.8)}, ascii()), "entropy"));
}

TEST_CASE("other metrics and axes") {
  const auto of = [](Metric metric, XAxis x = XAxis::step) {
    return curves_picture({run("toy", 100)}, ascii(metric, x));
  };
  CHECK(holds(of(Metric::lr), " learning rate - toy\n"));
  CHECK(holds(of(Metric::lr), "** each step, last 1e-3\n"));  // never smoothed of itself
  CHECK(holds(of(Metric::grad_norm), "** smoothed 0.5 (smoothing 0.5)"));
  CHECK(holds(of(Metric::tokens_per_second), "smoothed 20k"));
  CHECK_FALSE(holds(of(Metric::lr), "val"));
  CHECK(holds(of(Metric::loss, XAxis::tokens), "100k\n"));
  CHECK(holds(of(Metric::loss, XAxis::tokens), "target tokens\n"));
  CHECK(holds(of(Metric::loss, XAxis::time), "100\n"));  // 100 steps of a minute
  CHECK(holds(of(Metric::loss, XAxis::time), "minutes\n"));
}

TEST_CASE("a line passes over steps without a target, and its label tells the last loss there is") {
  NamedMetrics toy = run("toy", 30);
  std::vector<StepEvent>& steps = toy.metrics.steps;
  for (const std::size_t i : {9, 10, 29}) {
    steps[i].loss = steps[i].grad_norm = std::numeric_limits<double>::quiet_NaN();
    steps[i].tokens_per_second = 0;
  }
  NamedMetrics without = toy;
  std::erase_if(without.metrics.steps, [](const StepEvent& step) { return step.without_target(); });
  REQUIRE(without.metrics.steps.size() == 27);
  const std::string text = curves_picture({toy}, ascii());
  CAPTURE(text);
  CHECK(holds(text, "** train 1.704"));  // 1 + 3 e^(-29 / 20)
  CHECK(text == curves_picture({without}, ascii()));
  CHECK(curves_picture({toy}, ascii(Metric::grad_norm)) ==
        curves_picture({without}, ascii(Metric::grad_norm)));
  CHECK(holds(curves_picture({toy}, ascii(Metric::lr)), "each step, last 1e-3"));
  steps[29].tokens_per_second = 1000;  // it went wrong
  CHECK(holds(curves_picture({toy}, ascii()), "** train nan"));
}

TEST_CASE("a run without steps says so") {
  CHECK(holds(curves_picture({NamedMetrics{"new", {}}}, ascii()), "no finite value to draw yet"));
}

TEST_CASE("runs are named by the last part of their paths, or all of it where that is not enough") {
  const test::TemporaryDirectory directory;
  for (const char* name : {"a/x", "b/x", "b/y"}) {
    std::filesystem::create_directories(directory / name);
    test::put(directory / name / "metrics.jsonl", "");
  }
  const std::string ax = (directory / "a/x").string(), bx = (directory / "b/x").string(),
                    y = (directory / "b/y/").string();
  const auto runs = read_runs({ax, bx, y, (directory / "b/y/metrics.jsonl").string()});
  CHECK(runs[0].name == ax);
  CHECK(runs[1].name == bx);
  CHECK(runs[2].name == y);
  CHECK(runs[3].name == (directory / "b/y/metrics.jsonl").string());
  CHECK(read_runs({y, ax})[0].name == "y");
  CHECK(read_runs({y, ax})[1].name == "x");
}
