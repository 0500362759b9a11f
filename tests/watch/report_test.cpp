#include "quern/watch/report.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "error_of.hpp"
#include "quern/base/check.hpp"
#include "quern/base/sha256.hpp"

using namespace quern;
using nlohmann::json;
using test::get;
using test::put;
using test::TemporaryDirectory;

namespace {

StepEvent step(std::int64_t number, double loss) {
  StepEvent event;
  event.step = number;
  event.tokens = 100 * number;
  event.loss = loss;
  event.lr = 0.001;
  event.grad_norm = 0.5;
  event.ms = 1000;
  event.tokens_per_second = 100;
  event.phases = {1, 400, 500, 99};
  event.rss = 50'000'000;
  event.update_ratio = 0.002;
  return event;
}

ReportRun some_run(std::int64_t steps = 20) {
  ReportRun run;
  run.name = "toy";
  run.path = "runs/toy";
  run.status = "completed";
  run.metrics.start.emplace();
  run.metrics.start->vocab_size = 256;
  run.metrics.start->data_fingerprint = "0123456789abcdef";
  run.metrics.start->entropy_floor = 0.25;
  run.metrics.start->max_steps = steps;
  run.metrics.evals.push_back({0, "val", 5.5, 10, 0.5, false, {}});
  for (std::int64_t i = 1; i <= steps; ++i)
    run.metrics.steps.push_back(step(i, 1 + 4.0 / static_cast<double>(i)));
  run.metrics.evals.push_back({steps, "val", 1.5, 10, 0.5, true, {}});
  run.config = R"({"about": "", "model": {"d_model": 32, "n_heads": 4}, "run": {"threads": 0}})";
  run.given = R"({"model": {"d_model": 32}})";
  run.environment = R"({"cpu": "a processor", "threads": 2})";
  return run;
}

/// What stands between the first `open` behind `from` and the next `close`.
std::string between(const std::string& text, const std::string& open, const std::string& close,
                    std::size_t from = 0) {
  const std::size_t begin = text.find(open, from) + open.size();
  return text.substr(begin, text.find(close, begin) - begin);
}

const std::string data_begin = "<script type=\"application/json\" id=\"data\">";

json data_of(const std::string& page) { return json::parse(between(page, data_begin, "</script>")); }

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the page's data reads back") {
  const json data = data_of(report_page({some_run()}, 1.75e9));
  CHECK(data["written"] == 1'750'000'000);
  const json& run = data["runs"][0];
  CHECK(run["name"] == "toy");
  CHECK(run["status"] == "completed");
  CHECK(run["steps"]["step"].size() == 20);
  CHECK(run["steps"]["loss"][3] == 2);
  CHECK(run["steps"]["seconds"][19] == 20.5);  // the evaluation of step 0 took half a second
  CHECK(run["steps"]["rss"][0] == 50'000'000);
  CHECK(run["steps"]["forward_ms"][0] == 400);
  CHECK(run["steps"]["update_ratio"][0] == 0.002);
  CHECK_FALSE(run.contains("means"));
  CHECK(run["evals"]["step"] == json({0, 20}));
  CHECK(run["evals"]["loss"] == json({5.5, 1.5}));
  CHECK(run["evals"]["tokens"] == json({0, 2000}));
  CHECK(run["best"] == json({{"step", 20}, {"loss", 1.5}}));
  CHECK(run["facts"]["entropy_floor"] == 0.25);
  CHECK(run["facts"]["data_fingerprint"] == "0123456789abcdef");
  CHECK(run["config"]["model.d_model"] == 32);
  CHECK(run["given"] == json({"model.d_model"}));
  CHECK(run["environment"]["cpu"] == "a processor");
  CHECK(run["command"] == "quern train --config runs/toy/config.resolved.json --set run.threads=2");
}

TEST_CASE("numbers that are not finite are null and stay") {
  ReportRun run = some_run(10'000);
  run.metrics.steps[5'000].loss = std::numeric_limits<double>::quiet_NaN();
  run.metrics.steps[7'000].grad_norm = std::numeric_limits<double>::infinity();
  const json steps = data_of(report_page({run}, 0))["runs"][0]["steps"];
  CHECK(std::count(steps["loss"].begin(), steps["loss"].end(), nullptr) == 1);
  CHECK(std::count(steps["grad_norm"].begin(), steps["grad_norm"].end(), nullptr) == 1);
}

TEST_CASE("a long run makes a small page that keeps its extremes and its means") {
  ReportRun run = some_run(100'000);
  run.metrics.steps[43'210].loss = 99.5;
  run.metrics.steps[43'211].grad_norm = 1e6;
  run.metrics.steps[43'212].tokens_per_second = 0.125;
  const std::string page = report_page({run}, 0);
  CHECK(page.size() < 1'500'000);
  const json data = data_of(page)["runs"][0];
  CHECK(data["steps_made"] == 100'000);
  const json& steps = data["steps"];
  CHECK(steps["step"].size() <= 5'000);
  CHECK(steps["step"].size() > 1'000);
  CHECK(steps["step"].front() == 1);
  CHECK(steps["step"].back() == 100'000);
  const auto at = [&](const char* name, double value) {
    return std::count(steps[name].begin(), steps[name].end(), value);
  };
  CHECK(at("loss", 99.5) == 1);
  CHECK(at("grad_norm", 1e6) == 1);
  CHECK(at("tokens_per_second", 0.125) == 1);
  // The means, weighed by the steps that they stand for, are the mean of all.
  double sum = 0, before = 0, all = 0;
  for (std::size_t i = 0; i < steps["step"].size(); ++i) {
    const double step = steps["step"][i];
    sum += data["means"]["loss"][i].get<double>() * (step - before);
    before = step;
  }
  for (const StepEvent& event : run.metrics.steps) all += event.loss;
  CHECK(std::abs(sum / all - 1) < 1e-6);

  const std::string five = report_page(std::vector<ReportRun>(5, run), 0);
  CHECK(five.size() < 3'000'000);
}

TEST_CASE("text from a run's files is neither markup nor an order to anything") {
  ReportRun run = some_run();
  const std::string hostile =
      "</script><script>alert(1)</script><!-- \xe2\x80\xa8 \xe2\x80\xae \x1b[31m \xff\xfe &amp;";
  run.name = hostile;
  run.metrics.samples.push_back({20, hostile, std::string("a\0b", 3)});
  run.metrics.warnings.push_back({20, hostile, true});
  AnomalyEvent anomaly;
  anomaly.kind = "spike";
  anomaly.text = hostile;
  run.metrics.anomalies.push_back(anomaly);
  run.config = R"({"about": "</script>", "x</script>": {"y": 1}})";
  run.environment = "[[[[";
  const std::string page = report_page({run}, 0);
  const std::string data = between(page, data_begin, "</script>");
  CHECK(!holds(data, "<"));
  CHECK(data.find_first_not_of("\t\n\r") == 0);
  for (const char c : data) REQUIRE((c >= ' ' && c <= '~'));
  const json read = json::parse(data)["runs"][0];
  const std::string safe =
      "</script><script>alert(1)</script><!-- \ufffd \ufffd \ufffd[31m \ufffd\ufffd &amp;";
  CHECK(read["name"] == safe);
  CHECK(read["samples"][0]["prompt"] == safe);
  CHECK(read["samples"][0]["text"] ==
        "a\ufffd"
        "b");
  CHECK(read["warnings"][0]["text"] == safe);
  CHECK(read["anomalies"][0]["text"] == safe);
  CHECK(read["config"]["about"] == "</script>");
  CHECK(read["environment"].empty());
  // Its name stands in the table for readers without JavaScript, too.
  const std::string table = between(page, "<noscript>", "</noscript>");
  CHECK(holds(table, "&lt;/script&gt;&lt;script&gt;alert(1)"));
  CHECK(holds(table, "&amp;amp;"));
  CHECK(!holds(table, "<script"));
}

TEST_CASE("long texts and lists are cut, and the page says so") {
  ReportRun run = some_run();
  std::string text;
  while (text.size() < 10'000'000) text += "\xc3\xa4";
  for (int i = 0; i < 1'000; ++i) run.metrics.samples.push_back({i, "", i == 999 ? "x" + text : "short"});
  const std::string page = report_page({run}, 0);
  CHECK(page.size() < 500'000);
  const json read = data_of(page)["runs"][0];
  CHECK(read["samples_made"] == 1'000);
  CHECK(read["samples"].size() == 100);
  CHECK(read["samples"][0]["step"] == 0);
  CHECK(read["samples"][99]["step"] == 999);
  const std::string last = read["samples"][99]["text"];
  CHECK(last.ends_with(" more bytes]"));
  CHECK(!holds(last, "\ufffd"));
}

TEST_CASE("the policy names the hashes of exactly what the page runs, and the page names nothing outside") {
  const std::string page = report_page({some_run()}, 0);
  const std::string policy = between(page, "Content-Security-Policy\" content=\"", "\"");
  const auto source = [](const std::string& text) { return "'sha256-" + base64(sha256(text)) + "'"; };
  const std::size_t scripts = page.find(data_begin) + data_begin.size();
  const std::string chart = between(page, "<script>", "</script>", scripts);
  const std::string own = between(page, "<script>", "</script>", page.find(chart) + chart.size());
  CHECK(holds(chart, "Chart.js v3"));
  CHECK(policy == "default-src 'none'; script-src " + source(chart) + " " + source(own) + "; style-src " +
                      source(between(page, "<style>", "</style>")) +
                      "; img-src data:; base-uri 'none'; form-action 'none'");
  // No address of anything but in Chart.js's own text.
  for (const std::string& part : {page.substr(0, page.find(chart)), own}) {
    CHECK(!holds(part, "http:"));
    CHECK(!holds(part, "https:"));
    CHECK(!holds(part, "src=\""));
    CHECK(!holds(part, "url("));
    CHECK(!holds(part, "innerHTML"));
    CHECK(!holds(part, "eval("));
  }
}

TEST_CASE("a run's directory is read whole, and what is missing or damaged is said") {
  const TemporaryDirectory place;
  const auto run = place / "toy";
  std::filesystem::create_directory(run);
  Files files;
  CHECK(test::error_of([&] { read_report_runs(files, {run.string()}); }).kind == ErrorKind::run);
  put(run / "metrics.jsonl", R"({"event":"start","parameters":1,"train_tokens":2,"val_tokens":3})"
                             "\n");
  put(run / "config.resolved.json", R"({"run":{"seed":18446744073709551615,"profile_steps":[1,2]}})");
  put(run / "env.json", "{");
  for (const std::string& named : {run.string(), run.string() + "/", (run / "metrics.jsonl").string()}) {
    const std::vector<ReportRun> runs = read_report_runs(files, {named});
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].name == "toy");
    CHECK(runs[0].path == run.string());
    CHECK(runs[0].status == "killed");
    REQUIRE(runs[0].problems.size() == 2);
    CHECK(holds(runs[0].problems[0], "config.json"));
    CHECK(holds(runs[0].problems[1], "env.json"));
    const json read = data_of(report_page(runs, 0))["runs"][0];
    CHECK(read["config"]["run.seed"] == "18446744073709551615");  // more digits than a script's numbers have
    CHECK(read["config"]["run.profile_steps"] == "[1,2]");
    CHECK(read["warnings"].size() == 2);
    CHECK(read["steps"]["step"].empty());
  }
}

TEST_CASE("a run that trains has its page: at the end, and before as often as it is cheap") {
  const TemporaryDirectory place;
  Files files;
  put(place / "metrics.jsonl", R"({"event":"start","parameters":1,"train_tokens":2,"val_tokens":3})"
                               "\n");
  ReportWriter writer(files, place.path());
  writer.on_eval({});
  CHECK(get(place / report_name).empty());  // a page costs more than a hundredth of the time so far
  writer.on_end({});
  CHECK(data_of(get(place / report_name))["runs"][0]["status"] == "running");  // the end is not in the file
  const std::string end = R"({"event":"end","step":0,"status":"interrupted"})"
                          "\n";
  put(place / "metrics.jsonl", get(place / "metrics.jsonl") + end);
  writer.on_end({});
  CHECK(data_of(get(place / report_name))["runs"][0]["status"] == "interrupted");
}
