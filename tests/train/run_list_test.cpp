#include "quern/train/run_list.hpp"

#include <unistd.h>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/train/load.hpp"
#include "quern/train/run_directory.hpp"
#include "train/checkpoint_fixture.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::error_of;
using quern::test::put;
using quern::test::TemporaryDirectory;

namespace fs = std::filesystem;

namespace {

std::string metrics_of(double started, double ms, double loss) {
  std::string text = R"({"event":"start","time":)" + std::to_string(started) +
                     R"(,"max_steps":2,"parameters":)" + std::to_string(static_cast<int>(1000 / loss)) +
                     R"(,"train_tokens":8,"val_tokens":9})" + "\n";
  text += R"({"event":"step","step":1,"tokens":10,"loss":2.5,"lr":0.1,"grad_norm":1,"ms":)" +
          std::to_string(ms) + R"(,"tokens_per_second":4})" + "\n";
  return text + R"({"event":"eval","step":1,"split":"val","loss":)" + std::to_string(loss) +
         R"(,"tokens":5})" + "\n";
}

const std::string end_line = R"({"event":"end","step":1,"status":"completed"})"
                             "\n";

void make_run(const fs::path& path, const std::string& metrics) {
  fs::create_directories(path);
  put(path / "config.resolved.json", to_json(resolved(Config{})));
  put(path / "metrics.jsonl", metrics);
}

std::vector<std::string> names(const RunList& list) {
  std::vector<std::string> out;
  for (const ListedRun& run : list.runs) out.push_back(run.name);
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the runs of a folder, each once; what is none is left out") {
  const TemporaryDirectory place, elsewhere;
  make_run(place / "b", metrics_of(1, 10, 2) + end_line);
  make_run(place / "a", metrics_of(2, 10, 3));
  make_run(elsewhere / "far", metrics_of(3, 10, 4) + end_line);
  fs::create_directory(place / "notes");
  put(place / "notes/config.json", "{}");
  put(place / "readme.txt", "text");
  fs::create_directory_symlink("b", place / "latest");
  fs::create_directory_symlink(elsewhere / "far", place / "c");
  fs::create_directory_symlink("gone", place / "dangling");
  Files files;
  const RunList list = list_runs(files, place.path());
  CHECK(names(list) == Names{"a", "b", "c"});
  CHECK(list.warnings.empty());
  CHECK(list.runs[0].status == "killed");
  CHECK(list.runs[1].status == "completed");
  CHECK(list.runs[1].path == place / "b");
  CHECK(list.runs[1].summary->best->loss == 2);
  // A link alone has the name of what it leads to.
  CHECK(look_at_run(files, place / "latest").name == "b");
  CHECK(look_at_run(files, place / "latest/").name == "b");
  fs::create_directory(place / "empty");
  CHECK(list_runs(files, place / "empty").runs.empty());
}

TEST_CASE("a run whose lock is held is running, whatever its metrics say") {
  const TemporaryDirectory place;
  Files files;
  const std::string config = to_json(resolved(Config{}));
  {
    RunDirectory run = RunDirectory::create(files, {"toy", place / "run", place.path(), false});
    run.begin({config, config, "{}", "{}"});
    CHECK(list_runs(files, place.path()).runs.at(0).status == "running");  // no metrics yet
    CHECK(list_runs(files, place.path()).runs.at(0).summary->step == 0);
    put(place / "run/metrics.jsonl", metrics_of(1, 10, 2) + end_line);
    CHECK(list_runs(files, place.path()).runs.at(0).status == "running");
  }
  CHECK(list_runs(files, place.path()).runs.at(0).status == "completed");
  CHECK(names(list_runs(files, place.path())) == Names{"run"});  // `latest` leads to it too
}

TEST_CASE("damaged runs are listed with the reason") {
  const TemporaryDirectory place;
  make_run(place / "config", metrics_of(1, 10, 2) + end_line);
  put(place / "config/config.resolved.json", R"({"model": {"d_modell": 3}, "run": {"max_steps": "x"}})");
  make_run(place / "metrics", "nonsense\n");
  make_run(place / "no-config", metrics_of(1, 10, 2) + end_line);
  fs::remove(place / "no-config/config.resolved.json");
  put(place / "no-config/lock", "");
  Files files;
  const RunList list = list_runs(files, place.path());
  CHECK(names(list) == Names{"config", "metrics", "no-config"});
  REQUIRE(list.warnings.size() == 3);
  CHECK(contains(list.warnings[0], "the run config is damaged: model.d_modell: unknown key"));
  CHECK(contains(list.warnings[0], "config.resolved.json:1:12) and 1 more"));
  CHECK(contains(list.warnings[1], "the run metrics is damaged: this is no metrics.jsonl"));
  CHECK(contains(list.warnings[1], "metrics.jsonl:1"));
  CHECK(contains(list.warnings[2], "the run no-config is damaged: no such file"));
  CHECK(list.runs[0].status == "completed");
  CHECK_FALSE(list.runs[0].config);
  CHECK(list.runs[1].status == "damaged");
  CHECK_FALSE(list.runs[1].summary);
  CHECK(list.runs[2].summary->best->loss == 2);
}

TEST_CASE("a directory that may not be looked into is told, and the others are listed") {
  if (::geteuid() == 0) {
    WARN("the superuser may look into everything: not tried");
    return;
  }
  const TemporaryDirectory place;
  make_run(place / "a", metrics_of(1, 10, 2));
  fs::create_directory(place / "closed");
  fs::permissions(place / "closed", fs::perms::none);
  Files files;
  const RunList list = list_runs(files, place.path());
  fs::permissions(place / "closed", fs::perms::owner_all);
  CHECK(names(list) == Names{"a"});
  REQUIRE(list.warnings.size() == 1);
  CHECK(contains(list.warnings[0], "passed over " + (place / "closed").string()));
}

TEST_CASE("what is no folder of runs is exit 7") {
  const TemporaryDirectory place;
  make_run(place / "run", "");
  put(place / "file", "");
  Files files;
  for (const char* name : {"absent", "run", "file"}) {
    const Error error = error_of([&] { list_runs(files, place / name); });
    CHECK(error.kind == ErrorKind::run);
    CHECK(error.place == (place / name).string());
    CHECK_FALSE(error.hint.empty());
  }
}

TEST_CASE("runs in the order that is asked for, unknown figures last") {
  const TemporaryDirectory place;
  make_run(place / "a", metrics_of(10, 3000, 2));  // 500 parameters
  make_run(place / "b", metrics_of(30, 1000, 1));  // 1000
  make_run(place / "c", "nonsense\n");
  make_run(place / "d", "");
  make_run(place / "e", metrics_of(20, 2000, 4));  // 250
  Files files;
  RunList list = list_runs(files, place.path());
  const auto sorted = [&](const char* order) {
    sort_runs(list.runs, RunOrder::name);
    sort_runs(list.runs, run_order_named(order).value());
    return names(list);
  };
  CHECK(sorted("loss") == Names{"b", "a", "e", "c", "d"});
  CHECK(sorted("duration") == Names{"a", "e", "b", "d", "c"});
  CHECK(sorted("parameters") == Names{"b", "a", "e", "c", "d"});
  CHECK(sorted("time") == Names{"b", "e", "a", "c", "d"});
  CHECK(sorted("name") == Names{"a", "b", "c", "d", "e"});
  CHECK_FALSE(run_order_named("size"));
}

TEST_CASE("the stored config is what stands in the run, whatever the environment says") {
  const TemporaryDirectory place;
  make_run(place / "run", "");
  Files files;
  ::setenv("QUERN_THREADS", "3", 1);
  const Config stored = stored_config(files, place / "run");
  ::unsetenv("QUERN_THREADS");
  CHECK(differences(stored, resolved(Config{})).empty());
}
