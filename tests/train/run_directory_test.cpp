#include "quern/train/run_directory.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/faulty_files.hpp"
#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "train/checkpoint_fixture.hpp"
#include "train/run_directory_fixture.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::Death;
using quern::test::error_of;
using quern::test::Fault;
using quern::test::FaultyFiles;
using quern::test::get;
using quern::test::kTexts;
using quern::test::make_run;
using quern::test::names_in;
using quern::test::put;
using quern::test::request_for;
using quern::test::TemporaryDirectory;
using quern::test::TinyCheckpoint;

namespace fs = std::filesystem;

namespace {

// '#' stands for a decimal digit, 'x' for a lower-case hexadecimal one.
bool has_form(const std::string& text, const std::string& form) {
  const auto fits = [](char c, char f) {
    if (f == '#') return c >= '0' && c <= '9';
    if (f == 'x') return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    return c == f;
  };
  return std::equal(text.begin(), text.end(), form.begin(), form.end(), fits);
}

}  // namespace

TEST_CASE("run directory: a dated run under its root, with a link to the newest") {
  const TemporaryDirectory place;
  Files files;
  const fs::path root = place / "my runs/é";
  std::optional<RunDirectory> run;
  run.emplace(RunDirectory::create(files, {"toy", {}, root, false}));
  const std::string name = run->path().filename().string();
  CHECK(has_form(name, "toy-########-######-xxxx"));
  CHECK(run->path().parent_path() == root);
  CHECK(get(run->path() / "lock") == std::to_string(::getpid()) + "\n");
  run->begin(kTexts);
  CHECK(get(run->config()) == kTexts.config);
  CHECK(get(run->resolved_config()) == kTexts.resolved_config);
  CHECK(get(run->environment()) == kTexts.environment);
  CHECK(get(run->tokenizer()) == kTexts.tokenizer);
  CHECK(names_in(run->path()) == std::set<std::string>{"lock", "config.json", "config.resolved.json",
                                                       "env.json", "tokenizer.json", "metrics.jsonl"});
  CHECK(get(run->metrics()).empty());
  CHECK(fs::read_symlink(root / "latest") == name);
  CHECK(run->warnings().empty());
  run.reset();
  CHECK(directory_state(files, root / name) == DirectoryState::run);
  CHECK(directory_state(files, root / "latest") == DirectoryState::run);

  RunDirectory second = RunDirectory::create(files, {"toy", {}, root, false});
  second.begin(kTexts);
  CHECK(fs::read_symlink(root / "latest") == second.path().filename());
  CHECK(names_in(root).size() == 3);
}

TEST_CASE("run directory: a name that is no name for a directory") {
  const TemporaryDirectory place;
  Files files;
  for (const char* name : {"", "a/b", "..", ".hidden", "-x", "a b", "é"}) {
    CAPTURE(name);
    const Error error = error_of([&] { RunDirectory::create(files, {name, {}, place.path(), false}); });
    CHECK(error.kind == ErrorKind::config);
    CHECK(contains(error.what(), "run.name"));
  }
  CHECK(names_in(place.path()).empty());
}

TEST_CASE("run directory: what is in a directory decides whether it may be used") {
  const TemporaryDirectory place;
  Files files;
  const fs::path directory = place / "d";
  CHECK(directory_state(files, directory) == DirectoryState::missing);
  fs::create_directory(directory);
  CHECK(directory_state(files, directory) == DirectoryState::vacant);
  // A start that did not come far.
  put(directory / "lock", "123\n");
  put(directory / "config.json", "{}");
  put(directory / ".tmp-env.json-12-0123456789abcdef", "{");
  CHECK(directory_state(files, directory) == DirectoryState::vacant);
  // Somebody's configuration: a model's directory looks like this.
  fs::remove(directory / "lock");
  CHECK(directory_state(files, directory) == DirectoryState::foreign);
  put(directory / "lock", "");
  put(directory / "notes.txt", "");
  CHECK(directory_state(files, directory) == DirectoryState::foreign);
  put(directory / "config.resolved.json", "{}");
  CHECK(directory_state(files, directory) == DirectoryState::run);
  CHECK(directory_state(files, directory / "notes.txt") == DirectoryState::foreign);

  CHECK_NOTHROW(require_run(files, directory));
  const Error missing = error_of([&] { require_run(files, place / "none"); });
  CHECK(missing.kind == ErrorKind::run);
  CHECK(std::string(missing.what()) == "there is no such run");
  const Error none = error_of([&] { RunDirectory::resume(files, place.path()); });
  CHECK(none.kind == ErrorKind::run);
  CHECK(std::string(none.what()) == "the directory holds no run");
  CHECK(names_in(place.path()) == std::set<std::string>{"d"});
}

TEST_CASE("run directory: one that is not empty is refused and left as it is") {
  const TemporaryDirectory place;
  Files files;
  make_run(place / "run");
  put(place / "run/metrics.jsonl", "{}\n");
  const Error exists = error_of([&] { RunDirectory::create(files, request_for(place / "run/")); });
  CHECK(exists.kind == ErrorKind::run);
  CHECK(exists.place == (place / "run").string());
  CHECK(contains(exists.hint, "--resume"));
  CHECK(contains(exists.hint, "--overwrite"));
  CHECK(get(place / "run/metrics.jsonl") == "{}\n");

  fs::create_directory(place / "mine");
  put(place / "mine/config.json", "mine");
  for (const bool overwrite : {false, true}) {
    const Error foreign =
        error_of([&] { RunDirectory::create(files, request_for(place / "mine", overwrite)); });
    CHECK(foreign.kind == ErrorKind::run);
    CHECK(contains(foreign.what(), "is not empty and holds no run"));
  }
  CHECK(names_in(place / "mine") == std::set<std::string>{"config.json"});

  put(place / "file", "");
  CHECK(error_of([&] { RunDirectory::create(files, request_for(place / "file")); }).kind == ErrorKind::io);
  CHECK(error_of([&] { RunDirectory::create(files, request_for(place / "file/d")); }).kind == ErrorKind::io);
}

TEST_CASE("run directory: overwriting removes the old run and nothing else") {
  const TemporaryDirectory place;
  Files files;
  make_run(place / "run");
  CheckpointStore(files, place / "run").save(TinyCheckpoint(10).data());
  for (const char* name : {"metrics.jsonl", "report.html", "log.txt", "notes.txt", "ckpt/mine.txt"}) {
    put(place / ("run/" + std::string(name)), "old");
  }
  fs::create_directory(place / "run/tb");
  put(place / "run/tb/events.out.tfevents.1.host.2.3", "old");
  fs::create_directory(place / "run/samples");
  put(place / "run/samples/step-000000010.txt", "old");
  put(place / "run/samples/mine.txt", "mine");

  {
    // Nothing goes before begin: the new start may still fail.
    const RunDirectory run = RunDirectory::create(files, request_for(place / "run", true));
    CHECK(fs::exists(place / "run/ckpt/step-000000010"));
  }
  CHECK(directory_state(files, place / "run") == DirectoryState::run);
  RunDirectory run = RunDirectory::create(files, request_for(place / "run", true));
  run.begin({"new", "new", "new", "new"});
  CHECK(get(run.config()) == "new");
  CHECK(names_in(place / "run") == std::set<std::string>{"lock", "config.json", "config.resolved.json",
                                                         "env.json", "tokenizer.json", "metrics.jsonl",
                                                         "notes.txt", "ckpt", "samples"});
  CHECK(names_in(place / "run/ckpt") == std::set<std::string>{"mine.txt"});
  CHECK(names_in(place / "run/samples") == std::set<std::string>{"mine.txt"});
  CHECK(get(place / "run/notes.txt") == "old");
}

TEST_CASE("run directory: a start that never begins leaves nothing behind") {
  const TemporaryDirectory place;
  Files files;
  { const RunDirectory run = RunDirectory::create(files, request_for(place / "run")); }
  CHECK(names_in(place.path()).empty());
  fs::create_directory(place / "run");
  { const RunDirectory run = RunDirectory::create(files, request_for(place / "run")); }
  CHECK(directory_state(files, place / "run") == DirectoryState::vacant);
}

TEST_CASE("run directory: the link to the newest run is made only where it belongs") {
  const TemporaryDirectory place;
  Files files;
  make_run(place / "elsewhere");
  CHECK(names_in(place.path()) == std::set<std::string>{"elsewhere"});
  RunDirectory named = RunDirectory::create(files, {"toy", place / "runs/named", place / "runs", false});
  named.begin(kTexts);
  CHECK(fs::read_symlink(place / "runs/latest") == "named");
  fs::remove(place / "runs/latest");
  put(place / "runs/latest", "mine");
  RunDirectory other = RunDirectory::create(files, {"toy", place / "runs/other", place / "runs", false});
  other.begin(kTexts);
  CHECK(get(place / "runs/latest") == "mine");
  REQUIRE(other.warnings().size() == 1);
  CHECK(contains(other.warnings()[0], "not a symbolic link"));
}

TEST_CASE("run directory: resuming cleans up") {
  const TemporaryDirectory place;
  Files files;
  make_run(place / "run");
  CheckpointStore(files, place / "run").save(TinyCheckpoint(10).data());
  fs::create_directory(place / "run/ckpt/.tmp-step-000000020-12-0123456789abcdef");
  put(place / "run/.tmp-latest-12-0123456789abcdef", "");
  const RunDirectory run = RunDirectory::resume(files, place / "run/");
  CHECK(run.path() == place / "run");
  CHECK(names_in(place / "run/ckpt") == std::set<std::string>{"step-000000010"});
  CHECK_FALSE(names_in(place / "run").contains(".tmp-latest-12-0123456789abcdef"));
}

TEST_CASE("run directory: a directory that may not be written to is told at once") {
  const TemporaryDirectory place;
  make_run(place / "run");
  // The calls of a resume: open, cut and write the lock, then create, write, fsync, close and delete the
  // probe.
  for (int at = 1; at <= 8; ++at) {
    FaultyFiles files(Fault::fail_once, at, at == 4 ? EROFS : EACCES);
    const Error error = error_of([&] { RunDirectory::resume(files, place / "run"); });
    CAPTURE(at);
    CHECK(error.kind == ErrorKind::io);
    CHECK(contains(error.hint, "use a directory that this user may write to"));
  }
  if (::geteuid() != 0) {
    fs::permissions(place.path(), fs::perms::owner_read | fs::perms::owner_exec);
    Files files;
    CHECK(error_of([&] { RunDirectory::create(files, request_for(place / "new")); }).kind == ErrorKind::io);
    fs::permissions(place.path(), fs::perms::owner_all);
  }
}

TEST_CASE("run directory: whatever call of a start fails, the same start works the next time") {
  const auto start = [](Files& files, const TemporaryDirectory& place) {
    RunDirectory run = RunDirectory::create(files, request_for(place / "run"));
    run.begin(kTexts);
  };
  FaultyFiles sound;
  const TemporaryDirectory whole;
  start(sound, whole);
  int failed = 0;
  for (int at = 1; at <= sound.calls(); ++at) {
    const TemporaryDirectory place;
    FaultyFiles faulty(Fault::fail_once, at, ENOSPC);
    CAPTURE(at);
    try {
      start(faulty, place);
    } catch (const Error& error) {
      ++failed;
      REQUIRE(error.kind == ErrorKind::io);
    }
    Files files;
    const DirectoryState state = directory_state(files, place / "run");
    REQUIRE(state != DirectoryState::foreign);
    if (state != DirectoryState::run) start(files, place);
    REQUIRE(names_in(place / "run").contains("config.resolved.json"));
  }
  CHECK(failed > 20);
}

TEST_CASE("run directory: whatever call of a start is the last, the same start works the next time") {
  for (const bool overwrite : {false, true}) {
    int at = 1;
    for (bool reached = true; reached; ++at) {
      const TemporaryDirectory place;
      if (overwrite) {
        make_run(place / "run");
        Files files;
        CheckpointStore(files, place / "run").save(TinyCheckpoint(10).data());
      }
      const auto start = [&](Files& files) {
        RunDirectory run = RunDirectory::create(files, request_for(place / "run", overwrite));
        run.begin({"new", "new", "new", "new"});
      };
      FaultyFiles faulty(Fault::die_within, at);
      bool died = false;
      try {
        start(faulty);
      } catch (const Death&) {
        died = true;
      }
      reached = faulty.calls() >= at;
      CAPTURE(overwrite, at, died);
      Files files;
      const DirectoryState state = directory_state(files, place / "run");
      REQUIRE(state != DirectoryState::foreign);
      if (!overwrite && state == DirectoryState::run) {
        RunDirectory::resume(files, place / "run");
      } else {
        start(files);
      }
      REQUIRE(get(place / "run/config.resolved.json") == "new");
      REQUIRE(names_in(place / "run").size() == 6);
    }
    CHECK(at > 30);
  }
}
