// A disk that fills up at any moment of a run.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "cli/runs.hpp"
#include "faults/long_tests.hpp"
#include "quern/base/check.hpp"
#include "quern/train/checkpoint_store.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

/// A small disk on a directory, seen by this test and the programs that it starts only.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& path) : path_(path) {
    ready_ = before_ >= 0 && root_ >= 0 && here_ >= 0 && ::unshare(CLONE_NEWNS) == 0;
    if (ready_) ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  }
  ~SmallDisk() {
    unmount();
    if (ready_) {
      CHECK(::setns(before_, CLONE_NEWNS) == 0);
      // Whoever joins a namespace gets its root directory, which in a chroot is not the one before.
      CHECK((::fchdir(root_) == 0 && ::chroot(".") == 0 && ::fchdir(here_) == 0));
    }
    for (const int descriptor : {before_, root_, here_}) ::close(descriptor);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  /// A new, empty disk of that many bytes; false where the machine allows no such thing.
  bool mount(long bytes) {
    unmount();
    mounted_ = ready_ && ::mount("quern-test", path_.c_str(), "tmpfs", 0, size(bytes).c_str()) == 0;
    return mounted_;
  }
  /// The same disk with what is on it.
  bool resize(long bytes) {
    return ::mount("quern-test", path_.c_str(), "tmpfs", MS_REMOUNT, size(bytes).c_str()) == 0;
  }

 private:
  static int open_here(const char* path) { return ::open(path, O_RDONLY | O_CLOEXEC); }
  static std::string size(long bytes) { return "mode=755,size=" + std::to_string(bytes); }
  void unmount() {
    if (std::exchange(mounted_, false)) ::umount2(path_.c_str(), MNT_DETACH);
  }

  fs::path path_;
  int before_ = open_here("/proc/self/ns/mnt"), root_ = open_here("/"), here_ = open_here(".");
  bool ready_ = false, mounted_ = false;
};

/// error[io]: cannot …: No space left on device, N bytes needed, N bytes free, and the file that it is about.
void check_message(const std::string& err, const fs::path& disk) {
  CHECK(has(err, "error[io]: cannot "));
  CHECK(has(err, ": No space left on device, "));
  CHECK(has(err, " bytes needed, "));
  CHECK(has(err, " bytes free\n  --> " + disk.string() + "/run/"));
  CHECK(has(err, "\n  help: free some space there, or use a directory on another disk\n"));
}

}  // namespace

TEST_CASE(
    "a full disk is exit 4 with the bytes needed; old checkpoints stay, and with space the run goes on") {
  const TemporaryDirectory directory;
  const fs::path whole = directory / "whole", disk = directory / "disk", path = disk / "run";
  const std::vector<std::string> settings = {"run.max_steps=12", "run.checkpoint_interval=3",
                                             "run.eval_interval=6", "run.eval_batches=2"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  fs::create_directory(disk);
  SmallDisk small(disk);
  if (!small.mount(1 << 20)) {
    WARN("no disks can be mounted here (this takes root): a full disk is not tried");
    return;
  }
  // A checkpoint takes 356 KiB in all; three of them exist at once before the oldest goes, and beside them
  // two pages of some 300 KiB, the old one and the new one.
  int refused = 0, with_checkpoints = 0, completed = 0;
  std::vector<long> sizes = {4, 8, 12, 16, 20, 24};  // while the run's directory is made
  for (long kib = 64; kib <= 2432; kib += times(128, 64)) sizes.push_back(kib);
  for (const long kib : sizes) {
    REQUIRE(small.mount(kib * 1024));
    const Outcome o = run(resume_words(path, settings), directory);
    CAPTURE(kib, o.err);
    REQUIRE((o.code == 0 || o.code == 4));
    if (o.code == 4) {
      ++refused;
      check_message(o.err, disk);
      quern::Files files;
      quern::CheckpointStore store(files, path);
      for (const std::int64_t step : store.steps()) {
        CHECK_NOTHROW(quern::open_checkpoint(files, store.path_of(step)));
        ++with_checkpoints;
      }
      std::error_code not_begun;  // a run that was not begun leaves nothing, its directory included
      for (const auto& entry : fs::recursive_directory_iterator(path, not_begun))
        CHECK(!entry.path().filename().string().starts_with(".tmp"));
      REQUIRE(small.resize(8 << 20));
      REQUIRE(run(resume_words(path, settings), directory).code == 0);
    } else {
      ++completed;
    }
    check_same_run(path, whole);
  }
  CHECK(refused >= 12);
  CHECK(with_checkpoints >= 6);
  CHECK(completed >= 1);
}

TEST_CASE(
    "on_checkpoint_error continue: three saves in a row may fail, the fourth ends the run with exit 4") {
  const TemporaryDirectory directory;
  const fs::path whole = directory / "whole", disk = directory / "disk", path = disk / "run";
  const std::vector<std::string> settings = {"run.max_steps=12", "run.eval_interval=0", "run.eval_batches=1",
                                             "run.on_checkpoint_error=continue"};
  const auto with_interval = [&](const char* interval) {
    std::vector<std::string> all = settings;
    all.push_back(std::string("run.checkpoint_interval=") + interval);
    return all;
  };
  REQUIRE(run(resume_words(whole, with_interval("2")), directory).code == 0);
  fs::create_directory(disk);
  SmallDisk small(disk);
  if (!small.mount(600 << 10)) {
    WARN("no disks can be mounted here (this takes root): a full disk is not tried");
    return;
  }
  // There is room for the first checkpoint, of step 2, and not for a second one.
  Outcome o = run(resume_words(path, with_interval("2")), directory);
  CAPTURE(o.err);
  CHECK(o.code == 4);
  for (const char* warning : {"step 4 was not saved, 1 of at most 3 times in a row: ",
                              "step 6 was not saved, 2 of", "step 8 was not saved, 3 of"})
    CHECK(has(o.err, warning));
  CHECK(has(o.err, "No space left on device"));
  CHECK(has(o.err, "failed after step 10"));
  quern::Files files;
  quern::CheckpointStore store(files, path);
  CHECK(store.steps() == std::vector<std::int64_t>{2});
  CHECK_NOTHROW(quern::open_checkpoint(files, store.path_of(2)));
  REQUIRE(small.resize(8 << 20));
  REQUIRE(run(resume_words(path, with_interval("2")), directory).code == 0);
  check_same_run(path, whole);

  // The save after the last step is never left out.
  REQUIRE(small.mount(600 << 10));
  o = run(resume_words(path, with_interval("5")), directory);
  CHECK(o.code == 4);
  CHECK(has(o.err, "step 10 was not saved, 1 of"));
  CHECK(has(o.err, "failed after step 12"));
}

TEST_CASE("on_checkpoint_error continue: a disk that others fill to its last byte, and empty again in time") {
  const TemporaryDirectory directory;
  const fs::path whole = directory / "whole", disk = directory / "disk", path = disk / "run";
  const std::vector<std::string> settings = {"run.max_steps=1500", "run.eval_interval=0",
                                             "run.eval_batches=1", "run.checkpoint_interval=100000",
                                             "run.on_checkpoint_error=continue"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  fs::create_directory(disk);
  SmallDisk small(disk);
  if (!small.mount(4 << 20)) {
    WARN("no disks can be mounted here (this takes root): a full disk is not tried");
    return;
  }
  Program program(resume_words(path, settings), directory);
  REQUIRE(wait_for_metrics(program, path, "\"step\":30,"));
  ::kill(program.pid(), SIGSTOP);
  std::ofstream(disk / "filler") << std::string(8 << 20, '\0') << std::flush;
  const std::size_t told = program.err().size();
  ::kill(program.pid(), SIGCONT);
  // Some dozens of steps, more than what the metrics' last page has room for.
  REQUIRE(wait_until(program, [&] { return program.err().size() > told + 1000; }));
  ::kill(program.pid(), SIGUSR1);  // the one save that meets the full disk
  REQUIRE(wait_until(program, [&] { return has(program.err(), "was not saved, 1 of"); }));
  fs::remove(disk / "filler");
  const Outcome o = program.wait();
  CAPTURE(o.err);
  CHECK(o.code == 0);
  CHECK(has(o.err, "No space left on device"));
  check_same_run(path, whole);  // not a line is missing
}
