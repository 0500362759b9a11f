#include "quern/train/checkpoint_store.hpp"

#include <filesystem>
#include <optional>
#include <set>

#include "base/faulty_files.hpp"
#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/durable.hpp"
#include "train/checkpoint_fixture.hpp"
#include "train/crash_states.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::CrashModel;
using quern::test::Death;
using quern::test::error_of;
using quern::test::Fault;
using quern::test::FaultyFiles;
using quern::test::get;
using quern::test::put;
using quern::test::RecordingFiles;
using quern::test::require_holds;
using quern::test::TemporaryDirectory;
using quern::test::TinyCheckpoint;
using quern::test::Tree;

namespace fs = std::filesystem;

namespace {

std::vector<std::int64_t> steps_in(const fs::path& run) {
  Files files;
  return CheckpointStore(files, run).steps();
}

// Names in the run and in ckpt/ that begin with a dot.
int leftovers(const fs::path& run) {
  int count = 0;
  for (const fs::path& directory : {run, run / "ckpt"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      count += entry.path().filename().string().starts_with('.') ? 1 : 0;
    }
  }
  return count;
}

void flip(const fs::path& path, std::size_t byte) {
  std::string content = get(path);
  content.at(byte) = static_cast<char>(content.at(byte) ^ 1);
  put(path, content);
}

}  // namespace

TEST_CASE("checkpoint store: saves, finds and reads back") {
  const TemporaryDirectory run;
  Files files;
  CheckpointStore store(files, run.path());
  CHECK_FALSE(store.find_latest().checkpoint);
  const TinyCheckpoint ten(10), twenty(20);
  CHECK(store.save(ten.data()) == run / "ckpt/step-000000010");
  CHECK(store.save(twenty.data()) == run / "ckpt/step-000000020");
  CHECK(get(run / "latest") == "ckpt/step-000000020\n");
  CHECK(store.steps() == std::vector<std::int64_t>{20, 10});
  const CheckpointStore::Found found = CheckpointStore(files, run.path()).find_latest();
  REQUIRE(found.checkpoint);
  CHECK(found.warnings.empty());
  require_holds(*found.checkpoint, 20);
  require_holds(open_checkpoint(files, run / "ckpt/step-000000010/"), 10);
  CHECK(leftovers(run.path()) == 0);
}

TEST_CASE("checkpoint store: a step that is there stays, a damaged one is replaced") {
  const TemporaryDirectory run;
  Files files;
  TinyCheckpoint ten(10);
  CheckpointStore(files, run.path()).save(ten.data());
  const auto written = fs::last_write_time(run / "ckpt/step-000000010/manifest.json");
  FaultyFiles counting;
  CheckpointStore(counting, run.path()).save(ten.data());
  CHECK(fs::last_write_time(run / "ckpt/step-000000010/manifest.json") == written);
  CHECK(leftovers(run.path()) == 0);

  flip(run / "ckpt/step-000000010/optim.safetensors", 130);
  CHECK_THROWS_AS(open_checkpoint(files, run / "ckpt/step-000000010"), Error);
  CheckpointStore(files, run.path()).save(ten.data());
  require_holds(open_checkpoint(files, run / "ckpt/step-000000010"), 10);
  CHECK(leftovers(run.path()) == 0);
}

TEST_CASE("checkpoint store: a state that JSON cannot hold is our bug, before anything is written") {
  const TemporaryDirectory run;
  Files files;
  CheckpointStore store(files, run.path());
  const TinyCheckpoint ten(10);
  CheckpointData data = ten.data();
  data.state["best"] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(store.save(data), Bug);
  CHECK(store.steps().empty());
}

TEST_CASE("checkpoint store: discovery falls back and says so") {
  const TemporaryDirectory run;
  Files files;
  for (const std::int64_t step : {10, 20, 30})
    CheckpointStore(files, run.path()).save(TinyCheckpoint(step).data());
  flip(run / "ckpt/step-000000030/model.safetensors", 190);
  fs::remove(run / "ckpt/step-000000020/state.json");
  fs::create_directory(run / "ckpt/step-40");
  put(run / "ckpt/step-000000050", "");
  const CheckpointStore::Found found = CheckpointStore(files, run.path()).find_latest();
  REQUIRE(found.checkpoint);
  require_holds(*found.checkpoint, 10);
  REQUIRE(found.warnings.size() == 2);
  CHECK(contains(found.warnings[0], "step-000000030"));
  CHECK(contains(found.warnings[0], "model.safetensors"));
  CHECK(contains(found.warnings[1], "state.json"));

  fs::remove(run / "ckpt/step-000000010/manifest.json");
  const Error error = error_of([&] { CheckpointStore(files, run.path()).find_latest(); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(contains(error.what(), "no checkpoint of the run is intact"));
  CHECK(error.place == (run / "ckpt/step-000000030/model.safetensors").string());
}

TEST_CASE("checkpoint store: one that the system keeps from being read is not passed over") {
  const TemporaryDirectory run;
  Files files;
  for (const std::int64_t step : {10, 20})
    CheckpointStore(files, run.path()).save(TinyCheckpoint(step).data());
  FaultyFiles sound;
  CHECK(CheckpointStore(sound, run.path()).find_latest().checkpoint->step() == 20);
  int refused = 0;
  for (int at = 1; at <= sound.calls(); ++at) {
    FaultyFiles faulty(Fault::fail_once, at, at % 2 == 0 ? EIO : EACCES);
    CAPTURE(at);
    try {
      const auto found = CheckpointStore(faulty, run.path()).find_latest();
      CHECK(found.checkpoint->step() == 20);
    } catch (const Error& error) {  // else the call closed what was only read
      ++refused;
      CHECK(error.kind == ErrorKind::io);
      CHECK(contains(error.place, "step-000000020"));
      CHECK(contains(error.hint, "name an older checkpoint"));
    }
  }
  CHECK(refused > 10);
}

TEST_CASE("checkpoint store: pruning keeps the newest intact ones, two at least, and the best") {
  const TemporaryDirectory run;
  Files files;
  const auto fill = [&] {
    for (std::int64_t step = 10; step <= 60; step += 10) {
      CheckpointStore(files, run.path()).save(TinyCheckpoint(step).data());
    }
  };
  using Steps = std::vector<std::int64_t>;
  fill();
  CheckpointStore(files, run.path()).prune(4, std::nullopt);
  CHECK(steps_in(run.path()) == Steps{60, 50, 40, 30});
  fill();
  CheckpointStore(files, run.path()).prune(1, 10);
  CHECK(steps_in(run.path()) == Steps{60, 50, 10});
  CHECK(leftovers(run.path()) == 0);
  fill();
  flip(run / "ckpt/step-000000050/model.safetensors", 190);
  CheckpointStore(files, run.path()).prune(0, 20);
  CHECK(steps_in(run.path()) == Steps{60, 50, 40, 20});
  flip(run / "ckpt/step-000000040/model.safetensors", 190);
  CheckpointStore(files, run.path()).prune(2, std::nullopt);
  CHECK(steps_in(run.path()) == Steps{60, 50, 40, 20});
}

TEST_CASE("checkpoint store: another future discards what came later") {
  const TemporaryDirectory run;
  Files files;
  CheckpointStore store(files, run.path());
  for (const std::int64_t step : {10, 20, 30}) store.save(TinyCheckpoint(step).data());
  put(run / "ckpt/notes.txt", "mine");
  store.discard_after(10);
  CHECK(store.steps() == std::vector<std::int64_t>{10});
  CHECK(get(run / "latest") == "ckpt/step-000000010\n");
  store.discard_all();
  CHECK(store.steps().empty());
  CHECK(get(run / "ckpt/notes.txt") == "mine");
  fs::remove(run / "ckpt/notes.txt");
  store.discard_all();
  CHECK_FALSE(fs::exists(run / "ckpt"));
}

TEST_CASE("checkpoint store: cleaning takes leftovers only") {
  const TemporaryDirectory run;
  Files files;
  CheckpointStore store(files, run.path());
  store.save(TinyCheckpoint(10).data());
  const std::string random = "-12-0123456789abcdef";
  for (const std::string& name : {".tmp-step-000000020" + random, ".trash-step-000000005" + random}) {
    fs::create_directory(run / ("ckpt/" + name));
    put(run / ("ckpt/" + name + "/model.safetensors"), "part");
  }
  put(run / (".tmp-latest" + random), "part");
  fs::create_directory(run / "ckpt/.trash-mine");
  put(run / ".tmp-mine", "");
  store.clean();
  CHECK(leftovers(run.path()) == 2);
  CHECK(fs::exists(run / "ckpt/.trash-mine"));
  CHECK(fs::exists(run / ".tmp-mine"));
  CHECK(store.steps() == std::vector<std::int64_t>{10});
}

// What a run does at step 30 while 10 and 20 are there: save, then prune to two.
TEST_CASE(
    "checkpoint store: every system call of a save fails or is the last, and the newest committed one is "
    "found") {
  const TemporaryDirectory before;
  Files files;
  for (const std::int64_t step : {10, 20})
    CheckpointStore(files, before.path()).save(TinyCheckpoint(step).data());
  const TinyCheckpoint thirty(30);

  for (const Fault fault :
       {Fault::fail_once, Fault::fail_always, Fault::die_before, Fault::die_within, Fault::die_after}) {
    int at = 1;
    for (bool reached = true; reached; ++at) {
      CAPTURE(static_cast<int>(fault), at);
      const TemporaryDirectory run;
      fs::copy(before.path(), run.path(), fs::copy_options::recursive);
      FaultyFiles faulty(fault, at, at % 2 == 0 ? EIO : ENOSPC);
      bool saved = false, failed = false;
      try {
        CheckpointStore store(faulty, run.path());
        store.save(thirty.data());
        saved = true;
        store.prune(2, std::nullopt);
      } catch (const Error& error) {
        REQUIRE(error.kind == ErrorKind::io);
        failed = true;
      } catch (const Death&) {
        failed = true;
      }
      reached = faulty.calls() >= at;
      // A call that failed unnoticed closed what was only read.
      if (!failed) REQUIRE(saved);

      const bool committed = fs::exists(run / "ckpt/step-000000030");
      REQUIRE((committed || !saved));
      CheckpointStore next(files, run.path());
      if (fault == Fault::fail_once && !saved) REQUIRE(leftovers(run.path()) == 0);
      next.clean();
      REQUIRE(leftovers(run.path()) == 0);
      const CheckpointStore::Found found = next.find_latest();
      REQUIRE(found.checkpoint);
      REQUIRE(found.warnings.empty());
      require_holds(*found.checkpoint, committed ? 30 : 20);
      next.save(thirty.data());
      next.prune(2, std::nullopt);
      REQUIRE(next.steps() == std::vector<std::int64_t>{30, 20});
      for (const std::int64_t step : next.steps())
        require_holds(open_checkpoint(files, next.path_of(step)), step);
    }
    CHECK(at > 50);  // the loop went through the whole protocol
  }
}

namespace {

// What is seen after a crash.
struct Outcome {
  std::int64_t newest = -1;       // -1: no checkpoint
  std::set<std::int64_t> intact;  // all
  bool all_intact = true;
  std::string latest;
};

class CrashTest {
 public:
  CrashTest() {
    RecordingFiles files(run_.path());
    CheckpointStore store(files, run_.path());
    for (const std::int64_t step : {10, 20, 30}) {
      store.save(TinyCheckpoint(step).data());
      promises_[files.operations.size()] = step;
    }
    store.prune(2, std::nullopt);
    operations_ = files.operations;
  }

  std::vector<std::size_t> syncs() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].kind == test::Operation::Kind::sync) out.push_back(i);
    }
    return out;
  }

  std::string describe(std::size_t operation) const {
    return std::to_string(operation) + ": " + operations_[operation].path;
  }

  // Whether every state after every operation keeps the promises, when one fsync is left out.
  bool holds(std::optional<std::size_t> left_out) {
    CrashModel model;
    std::int64_t promised = -1;
    for (std::size_t i = 0; i <= operations_.size(); ++i) {
      if (promises_.contains(i)) promised = promises_.at(i);
      const bool good = model.visit_states([&](const Tree& tree) { return keeps(outcome(tree), promised); });
      if (!good) return false;
      if (i < operations_.size()) model.apply(operations_[i], left_out == i);
    }
    return true;
  }

  std::size_t states() const { return outcomes_.size(); }

 private:
  static bool keeps(const Outcome& seen, std::int64_t promised) {
    if (!seen.all_intact) return false;
    if (seen.newest < promised) return false;
    // Two intact ones as soon as two were saved.
    if (promised >= 20 && seen.intact.size() < 2) return false;
    if (promised < 0 && seen.latest.empty()) return true;
    const std::optional<std::int64_t> hinted =
        seen.latest.starts_with("ckpt/") && seen.latest.ends_with('\n')
            ? checkpoint_step(seen.latest.substr(5, seen.latest.size() - 6))
            : std::nullopt;
    return hinted && *hinted >= promised && seen.intact.contains(*hinted);
  }

  const Outcome& outcome(const Tree& tree) {
    const auto [entry, is_new] = outcomes_.try_emplace(tree);
    if (!is_new) return entry->second;
    const TemporaryDirectory disk;
    test::materialise(tree, disk.path());
    Files files;
    const CheckpointStore store(files, disk.path());
    Outcome& seen = entry->second;
    for (const std::int64_t step : store.steps()) {
      try {
        open_checkpoint(files, store.path_of(step));
        seen.intact.insert(step);
        seen.newest = std::max(seen.newest, step);
      } catch (const Error&) {
        seen.all_intact = false;
      }
    }
    if (fs::exists(disk / "latest")) seen.latest = get(disk / "latest");
    return seen;
  }

  TemporaryDirectory run_;
  std::vector<test::Operation> operations_;
  std::map<std::size_t, std::int64_t> promises_;  // from this operation on, that step is promised
  std::map<Tree, Outcome> outcomes_;
};

}  // namespace

TEST_CASE("checkpoint store: no loss of power breaks a promise, and each fsync is needed for that") {
  CrashTest test;
  REQUIRE(test.holds(std::nullopt));
  CHECK(test.states() > 100);
  CHECK(test.syncs().size() == 3 * 8 + 2);
  for (const std::size_t sync : test.syncs()) {
    CAPTURE(test.describe(sync));
    CHECK_FALSE(test.holds(sync));
  }
}
