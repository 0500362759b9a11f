// A run's lock: one trainer at a time, whoever comes and goes.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "catch.hpp"
#include "quern/base/check.hpp"
#include "train/checkpoint_fixture.hpp"
#include "train/run_directory_fixture.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::error_of;
using quern::test::get;
using quern::test::kTexts;
using quern::test::make_run;
using quern::test::names_in;
using quern::test::put;
using quern::test::request_for;
using quern::test::TemporaryDirectory;

namespace fs = std::filesystem;

TEST_CASE("run directory: a second trainer is refused and the first one named") {
  const TemporaryDirectory place;
  Files files;
  {
    RunDirectory first = RunDirectory::create(files, request_for(place / "run"));
    const auto refused = [&](const std::function<void()>& start) {
      const Error error = error_of(start);
      CHECK(error.kind == ErrorKind::run);
      CHECK(std::string(error.what()) == "the run is in use by process " + std::to_string(::getpid()));
      CHECK(error.place == (place / "run").string());
    };
    refused([&] { RunDirectory::create(files, request_for(place / "run")); });
    first.begin(kTexts);
    refused([&] { RunDirectory::create(files, request_for(place / "run", true)); });
    refused([&] { RunDirectory::resume(files, place / "run"); });
    CHECK(get(place / "run/config.json") == kTexts.config);
  }
  CHECK(get(place / "run/lock").empty());
  CHECK_NOTHROW(RunDirectory::resume(files, place / "run"));
}

TEST_CASE("run directory: whether a run is in use is seen without a trace") {
  const TemporaryDirectory place;
  Files files;
  CHECK_FALSE(in_use(files, place / "absent"));
  {
    RunDirectory run = RunDirectory::create(files, request_for(place / "run"));
    run.begin(kTexts);
    CHECK(in_use(files, place / "run"));
    CHECK(in_use(files, place / "run"));
    CHECK(get(place / "run/lock") == std::to_string(::getpid()) + "\n");
  }
  const std::set<std::string> names = names_in(place / "run");
  CHECK_FALSE(in_use(files, place / "run"));
  CHECK(names_in(place / "run") == names);
  fs::remove(place / "run/lock");
  CHECK_FALSE(in_use(files, place / "run"));
  CHECK_FALSE(fs::exists(place / "run/lock"));
}

TEST_CASE("run directory: a start outwaits one who only looks whether the run is in use") {
  // Lets the reader go when the start reads the lock, and so has found it busy.
  class PatientFiles final : public Files {
   public:
    File reader;
    int reads = 0;

   protected:
    ssize_t system_pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
      if (++reads == 3) reader = File();
      return Files::system_pread(descriptor, data, bytes, offset);
    }
  };
  const TemporaryDirectory place;
  PatientFiles files;
  make_run(place / "run");
  put(place / "run/lock", "999999999\n");  // of a trainer that was killed
  files.reader = files.open_read(place / "run/lock");
  REQUIRE(files.reader.lock(File::LockMode::shared) == File::Lock::taken);
  CHECK_NOTHROW(RunDirectory::resume(files, place / "run"));
  CHECK(files.reads == 3);
}

TEST_CASE("run directory: a lock whose file was removed meanwhile guards nothing and is taken again") {
  class LosingFiles final : public Files {
   protected:
    int system_open(int directory, const char* path, int flags, mode_t mode) override {
      const int descriptor = Files::system_open(directory, path, flags, mode);
      if (fs::path(path).filename() == "lock" && !lost_) lost_ = ::unlink(path) == 0;
      return descriptor;
    }

   private:
    bool lost_ = false;
  };
  const TemporaryDirectory place;
  LosingFiles files;
  const RunDirectory run = RunDirectory::create(files, request_for(place / "run"));
  CHECK(fs::exists(place / "run/lock"));
  CHECK(error_of([&] { RunDirectory::create(files, request_for(place / "run")); }).kind == ErrorKind::run);
}

namespace {

// Starts a run when `turn` says so and exits: 0 when it got it (it keeps it until the other has ended), 7
// when the other has it and was named.
[[noreturn]] void start_in_child(const fs::path& directory, int turn, const int (&ended)[2]) {
  char byte = 0;
  if (::read(turn, &byte, 1) != 1) ::_exit(99);
  try {
    Files files;
    RunDirectory run = RunDirectory::create(files, request_for(directory));
    run.begin(kTexts);
    pollfd other{ended[0], POLLIN, 0};
    ::poll(&other, 1, 10'000);
    ::_exit(0);  // as in a kill: no destructor runs
  } catch (const Error& error) {
    const bool named = contains(error.what(), "in use by process ") && ::write(ended[1], "e", 1) == 1;
    ::_exit(named ? static_cast<int>(error.kind) : 98);
  } catch (...) {
    ::_exit(97);
  }
}

}  // namespace

TEST_CASE("run directory: of two that start at once exactly one goes on") {
  for (int round = 0; round < 20; ++round) {
    const TemporaryDirectory place;
    int turn[2], ended[2];
    REQUIRE(::pipe(turn) == 0);
    REQUIRE(::pipe(ended) == 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 2; ++i) {
      const pid_t child = ::fork();
      if (child == 0) start_in_child(place / "run", turn[0], ended);
      children.push_back(child);
    }
    REQUIRE(::write(turn[1], "gg", 2) == 2);
    std::multiset<int> codes;
    for (const pid_t child : children) {
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      codes.insert(WEXITSTATUS(status));
    }
    for (const int end : {turn[0], turn[1], ended[0], ended[1]}) ::close(end);
    REQUIRE(codes == std::multiset<int>{0, 7});
  }
}
