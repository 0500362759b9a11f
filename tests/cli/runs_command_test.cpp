// quern runs from outside.
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "catch.hpp"
#include "cli/program.hpp"
#include "quern/watch/terminal.hpp"

using namespace quern::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string configs = QUERN_SOURCE_DIR "/configs/";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> training(const fs::path& run, const std::vector<std::string>& settings) {
  std::vector<std::string> words = {"train",     "-q",        "--config", configs + "tiny.json",
                                    "--run-dir", run.string()};
  for (const std::string& s : settings) words.insert(words.end(), {"--set", s});
  return words;
}

void train(const fs::path& run_directory, const TemporaryDirectory& place,
           std::vector<std::string> settings) {
  REQUIRE(run(training(run_directory, settings), place).code == 0);
}

Outcome in_utf8(const std::vector<std::string>& words, const TemporaryDirectory& place) {
  return run(words, place, {.environment = {"LC_ALL=C.UTF-8", "COLUMNS=80"}});
}

json runs_of(const fs::path& folder, const TemporaryDirectory& place) {
  const Outcome o = run({"runs", "ls", folder.string(), "--json"}, place);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  return json::parse(o.out).at("runs");
}

void replace(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = get(path);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  put(path, text.replace(at, from.size(), to));
}

void wait_for(const fs::path& path, const std::string& part) {
  while (!fs::exists(path) || !has(get(path), part))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("runs ls: best loss first, figures as the metrics have them, at most 80 columns") {
  const TemporaryDirectory place;
  const fs::path folder = place / "runs";
  train(folder / "short", place, {"run.max_steps=2"});
  const std::string name = "a-run-with-a-name-that-is-much-too-long-for-the-table-of-all-runs";
  train(folder / name, place, {"run.max_steps=20"});
  fs::create_directory(folder / "broken");
  put(folder / "broken/config.resolved.json", "{}");
  put(folder / "broken/metrics.jsonl", "\x1b[2J\n");
  put(folder / "notes.txt", "");
  fs::create_directory_symlink("short", folder / "latest");

  const json runs = runs_of(folder, place);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].at("name") == name);
  CHECK(runs[1].at("name") == "short");
  CHECK(runs[2].at("name") == "broken");
  CHECK(runs[2].at("status") == "damaged");
  CHECK(runs[2].at("best_val").is_null());
  json start, step, eval;
  std::istringstream lines(get(folder / name / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event.at("event") == "start") start = event;
    if (event.at("event") == "step") step = event;
    if (event.at("event") == "eval") eval = event;
  }
  CHECK(runs[0].at("status") == "completed");
  CHECK(runs[0].at("path") == (folder / name).string());
  CHECK(runs[0].at("step") == 20);
  CHECK(runs[0].at("max_steps") == 20);
  CHECK(runs[0].at("best_val").at("loss") == eval.at("loss"));
  CHECK(runs[0].at("best_val").at("step") == 20);
  CHECK(runs[0].at("train_loss") == step.at("loss"));
  CHECK(runs[0].at("tokens") == step.at("tokens"));
  CHECK(runs[0].at("parameters") == start.at("parameters"));
  CHECK(runs[0].at("started") == start.at("time"));
  CHECK(runs[0].at("seconds").get<double>() > 0);

  const Outcome table = in_utf8({"runs", "ls", folder.string()}, place);
  CHECK(table.code == 0);
  CHECK(has(table.err, "warning: the run broken is damaged"));
  CHECK(!has(table.err + table.out, "\x1b"));
  CHECK(has(table.out, "20/20"));
  CHECK(has(table.out, "…"));
  CHECK(!has(table.out, "latest"));
  std::istringstream rows(table.out);
  std::string first, row;
  std::getline(rows, first);
  CHECK(first.rfind("name", 0) == 0);
  for (int i = 0; std::getline(rows, row); ++i) {
    CHECK(quern::display_width(row) <= 80);
    if (i == 0) CHECK(row.rfind("a-run-", 0) == 0);
  }
  const Outcome by_name = in_utf8({"runs", "ls", folder.string(), "--sort", "name"}, place);
  CHECK(by_name.out.find("short") > by_name.out.find("broken"));
}

TEST_CASE("runs ls: running, interrupted and killed runs, and the trainer is not disturbed") {
  const TemporaryDirectory place, other;
  const fs::path folder = place / "runs", metrics = folder / "one/metrics.jsonl";
  const std::vector<std::string> words = training(folder / "one", {"run.max_steps=100000"});
  std::vector<std::string> again = words;
  again.insert(again.end(), {"--resume", "auto"});
  for (const int signal : {SIGINT, SIGKILL}) {
    Program trainer(again, other);
    wait_for(metrics, "\"step\":9,");
    const json runs = runs_of(folder, place);
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].at("status") == "running");
    kill(trainer.pid(), signal);
    CHECK(trainer.wait().code == 128 + signal);
    CHECK(runs_of(folder, place)[0].at("status") == (signal == SIGINT ? "interrupted" : "killed"));
    fs::remove_all(folder / "one");
  }
  // Who looks all the time keeps no start out.
  fs::create_directories(folder);
  std::vector<std::string> setting = training(folder / "one", {"run.max_steps=1"});
  REQUIRE(run(setting, place).code == 0);
  setting.push_back("--overwrite");
  Program first(setting, other);
  for (int i = 0; i < 5; ++i) runs_of(folder, place);
  CHECK(first.wait().code == 0);
}

TEST_CASE("runs ls: folders without runs") {
  const TemporaryDirectory place;
  fs::create_directory(place / "empty");
  const Outcome empty = run({"runs", "ls", (place / "empty").string()}, place);
  CHECK(empty.code == 0);
  CHECK(empty.out.empty());
  CHECK(has(empty.err, "there are no runs in"));
  CHECK(runs_of(place / "empty", place) == json::array());
  const Outcome absent = run({"runs", "ls", (place / "absent").string()}, place);
  CHECK(absent.code == 7);
  CHECK(has(absent.err, "error[run]"));
  CHECK(has(absent.err, "help:"));
  CHECK(run({"runs", "ls", ""}, place).code == 2);
  CHECK(run({"runs", "ls", (place / "empty").string(), "--sort", "size"}, place).code == 2);
  CHECK(run({"runs"}, place).code == 2);
}

TEST_CASE("runs diff: the fields that differ and the best losses") {
  const TemporaryDirectory place;
  const std::string a = (place / "a").string(), b = (place / "b").string();
  train(a, place, {"run.max_steps=2"});
  fs::copy(a, b, fs::copy_options::recursive);
  const Outcome equal = run({"runs", "diff", a, b}, place);
  CHECK(equal.code == 0);
  CHECK(has(equal.out, "the configs are equal"));
  CHECK(has(equal.out, "best val loss"));
  CHECK(has(equal.out, "at step 2"));

  replace(place / "b/config.resolved.json", "\"threads\": 0", "\"threads\": 2");
  const json before = json::parse(get(place / "a/config.resolved.json"));
  const double rate = before.at("optim").at("learning_rate").get<double>();
  json changed = json::parse(get(place / "b/config.resolved.json"));
  changed["optim"]["learning_rate"] = 0.1 + 0.2;
  changed["model"]["activation"] = "relu";
  put(place / "b/config.resolved.json", changed.dump());
  const Outcome shown = run({"runs", "diff", a, b}, place, {.environment = {"QUERN_THREADS=1"}});
  CAPTURE(shown.out, shown.err);
  CHECK(shown.code == 0);
  CHECK(has(shown.out, "optim.learning_rate"));
  CHECK(has(shown.out, "0.30000000000000004"));
  CHECK(has(shown.out, "run.threads"));
  CHECK(!has(shown.out, "model.d_model"));
  const json object = json::parse(run({"runs", "diff", a, b, "--json"}, place).out);
  REQUIRE(object.at("differences").size() == 3);
  CHECK(object["differences"][0] == json({{"path", "model.activation"}, {"a", "gelu"}, {"b", "relu"}}));
  CHECK(object["differences"][1].at("a").get<double>() == rate);
  CHECK(object["differences"][1].at("b").get<double>() == 0.1 + 0.2);
  CHECK(object["differences"][2] == json({{"path", "run.threads"}, {"a", 0}, {"b", 2}}));
  CHECK(object.at("a").at("best_val").at("loss") == object.at("b").at("best_val").at("loss"));

  CHECK(run({"runs", "diff", a, (place / "c").string()}, place).code == 7);
  CHECK(run({"runs", "diff", a}, place).code == 2);
}
