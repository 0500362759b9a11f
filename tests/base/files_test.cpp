#include "quern/base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>

#include "base/faulty_files.hpp"
#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/base/durable.hpp"

using namespace quern;
using quern::test::Death;
using quern::test::Fault;
using quern::test::FaultyFiles;
using quern::test::get;
using quern::test::put;
using quern::test::TemporaryDirectory;

namespace {

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return Error(ErrorKind::io, "");
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Every other call is interrupted, and no transfer moves more than three bytes.
class InterruptedFiles final : public Files {
 protected:
  int system_open(int directory, const char* path, int flags, mode_t mode) override {
    return interrupted() ? -1 : Files::system_open(directory, path, flags, mode);
  }
  ssize_t system_write(int descriptor, const void* data, std::size_t bytes) override {
    return interrupted() ? -1 : Files::system_write(descriptor, data, std::min<std::size_t>(bytes, 3));
  }
  ssize_t system_pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
    return interrupted() ? -1
                         : Files::system_pread(descriptor, data, std::min<std::size_t>(bytes, 3), offset);
  }
  int system_preallocate(int descriptor, off_t bytes) override {
    return interrupted() ? -1 : Files::system_preallocate(descriptor, bytes);
  }
  int system_sync(int descriptor) override { return interrupted() ? -1 : Files::system_sync(descriptor); }
  int system_truncate(int descriptor, off_t bytes) override {
    return interrupted() ? -1 : Files::system_truncate(descriptor, bytes);
  }

 private:
  bool interrupted() {
    now_ = !now_;
    errno = EINTR;
    return now_;
  }
  bool now_ = false;
};

}  // namespace

TEST_CASE("files: interrupted calls and short transfers are repeated") {
  const TemporaryDirectory directory;
  InterruptedFiles files;
  const std::string text = "a text that takes more than one write";
  replace_file_durably(files, directory / "a", text);
  CHECK(get(directory / "a") == text);
  CHECK(read_file(files, directory / "a", 1000) == text);
  File file = files.append(directory / "a");
  file.write("!");
  file.close();
  CHECK(get(directory / "a") == text + "!");
  file = files.open_or_create(directory / "a");
  file.truncate(6);
  CHECK(file.size() == 6);
  CHECK(get(directory / "a") == "a text");
}

TEST_CASE("files: an input that is missing or no regular file is a file error with its path") {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::filesystem::path& path) {
    const Error error = error_of([&] { read_file(path, 100); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == path.string());
    return std::string(error.what());
  };
  put(directory / "file", "text");
  REQUIRE(::mkfifo((directory / "pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("file", directory / "link");

  CHECK(refusal(directory / "missing") == "no such file");
  CHECK(refusal(directory / "file/below") == "no such file");
  CHECK(refusal(directory.path()) == "is a directory where a file is needed");
  CHECK(refusal(directory / "pipe") == "is a pipe where a regular file is needed");
  CHECK(refusal("/dev/null") == "is a device where a regular file is needed");
  put(directory / "large", std::string(101, 'x'));
  CHECK(refusal(directory / "large") == "the file has 101 bytes, more than the 100 allowed here");

  CHECK(read_file(directory / "file", 4) == "text");
  CHECK(read_file(directory / "link", 4) == "text");
  Files files;
  CHECK(error_of([&] { read_file(files, directory / "link", 4, Links::refuse); }).kind == ErrorKind::file);
  put(directory / "empty", "");
  CHECK(read_file(directory / "empty", 0).empty());
}

TEST_CASE("files: a full disk is told with path, bytes needed and bytes free") {
  const TemporaryDirectory directory;
  FaultyFiles files(Fault::fail_once, 2, ENOSPC);
  File full = files.open_or_create(directory / "full");
  const Error error = error_of([&] { full.write("12345"); });
  CHECK(error.kind == ErrorKind::io);
  CHECK(error.place == (directory / "full").string());
  CHECK(contains(error.what(), "No space left on device, 5 bytes needed, "));
  CHECK(contains(error.what(), " bytes free"));
  CHECK(contains(error.hint, "free some space"));

  FaultyFiles faulty(Fault::fail_once, 2, ENOSPC);
  File file = faulty.create(directory / "a");
  CHECK(contains(error_of([&] { file.preallocate(1000); }).what(), "1000 bytes needed"));
}

TEST_CASE("files: refusals of the system are io errors") {
  const TemporaryDirectory directory;
  Files files;
  put(directory / "a", "old");
  CHECK(error_of([&] { files.create(directory / "a"); }).kind == ErrorKind::io);
  CHECK(error_of([&] { files.create(directory / "no/a"); }).kind == ErrorKind::io);
  CHECK(error_of([&] { files.make_directory(directory / "a"); }).kind == ErrorKind::io);
  CHECK(error_of([&] { files.remove_file(directory / "none"); }).kind == ErrorKind::io);
  put(directory / "b", "new");
  const Error taken = error_of([&] { files.rename_new(directory / "b", directory / "a"); });
  CHECK(taken.kind == ErrorKind::io);
  CHECK(taken.place == (directory / "a").string());
  CHECK(get(directory / "a") == "old");
  files.rename_over(directory / "b", directory / "a");
  CHECK(get(directory / "a") == "new");
  const Error denied = error_of([&] {
    FaultyFiles faulty(Fault::fail_once, 1, EACCES);
    faulty.open_read(directory / "a");
  });
  CHECK(denied.kind == ErrorKind::io);
  CHECK(contains(denied.what(), "Permission denied"));
}

TEST_CASE("files: a rename without replacing also where the file system cannot say so") {
  class OldFiles final : public Files {
   protected:
    int system_rename(const char* from, const char* to, unsigned flags) override {
      if (flags == 0) return Files::system_rename(from, to, flags);
      errno = EINVAL;
      return -1;
    }
  };
  const TemporaryDirectory directory;
  OldFiles files;
  put(directory / "a", "a");
  put(directory / "b", "b");
  CHECK(error_of([&] { files.rename_new(directory / "a", directory / "b"); }).kind == ErrorKind::io);
  CHECK(get(directory / "b") == "b");
  files.rename_new(directory / "a", directory / "c");
  CHECK(get(directory / "c") == "a");
}

TEST_CASE("files: reading beyond the end names the byte") {
  const TemporaryDirectory directory;
  Files files;
  put(directory / "a", "12345");
  const File file = files.open_read(directory / "a");
  char data[8];
  file.read_at(1, data, 4);
  CHECK(std::string(data, 4) == "2345");
  const Error error = error_of([&] { file.read_at(2, data, 8); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(contains(error.what(), "ends at byte 5"));
}

TEST_CASE("files: names of a directory with their kinds, in order") {
  const TemporaryDirectory directory;
  Files files;
  put(directory / "b", "");
  std::filesystem::create_directory(directory / "a");
  std::filesystem::create_symlink("nowhere", directory / "c");
  const std::vector<DirectoryEntry> entries = files.list(directory.path());
  REQUIRE(entries.size() == 3);
  CHECK((entries[0].name == "a" && entries[0].kind == EntryKind::directory));
  CHECK((entries[1].name == "b" && entries[1].kind == EntryKind::file));
  CHECK((entries[2].name == "c" && entries[2].kind == EntryKind::symlink));
  CHECK(files.kind(directory / "c") == EntryKind::symlink);
  CHECK(files.kind(directory / "d") == EntryKind::missing);
  CHECK(error_of([&] { files.list(directory / "d"); }).kind == ErrorKind::file);
}

TEST_CASE("files: removing a directory takes only what it may") {
  const TemporaryDirectory directory;
  Files files;
  const auto ours = [](std::string_view name) { return name.starts_with("our"); };
  std::filesystem::create_directories(directory / "d/our-directory");
  put(directory / "outside", "stays");
  put(directory / "d/our-file", "");
  put(directory / "d/foreign", "");
  std::filesystem::create_symlink("../outside", directory / "d/our-link");
  CHECK_FALSE(files.remove_flat_directory(directory / "d", ours));
  CHECK(files.list(directory / "d").size() == 2);
  CHECK(get(directory / "outside") == "stays");

  std::filesystem::create_symlink("d", directory / "link");
  CHECK(error_of([&] { files.remove_flat_directory(directory / "link", ours); }).kind == ErrorKind::io);
  std::filesystem::remove_all(directory / "d/our-directory");
  std::filesystem::remove(directory / "d/foreign");
  put(directory / "d/our-file", "");
  CHECK(files.remove_flat_directory(directory / "d", ours));
  CHECK(files.kind(directory / "d") == EntryKind::missing);
}

TEST_CASE(
    "files: what is no regular file is not opened for writing, and nobody waits for a pipe's other end") {
  const TemporaryDirectory directory;
  Files files;
  REQUIRE(::mkfifo((directory / "pipe").c_str(), 0600) == 0);
  const int reader = ::open((directory / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  for (const bool read : {true, false}) {
    if (!read) ::close(reader);
    for (const std::filesystem::path& path : {directory / "pipe", std::filesystem::path("/dev/null")}) {
      const Error append = error_of([&] { files.append(path); });
      CHECK(append.kind == ErrorKind::io);
      CHECK(append.place == path.string());
      CHECK(std::string(append.what()) == "cannot open the file for appending: it is not a regular file");
      CHECK(contains(error_of([&] { files.open_or_create(path); }).what(), "not a regular file"));
    }
  }
  CHECK(error_of([&] { files.append(directory.path()); }).kind == ErrorKind::io);
}

TEST_CASE("files: a guard is asked before anything below its place is made, renamed or deleted") {
  const TemporaryDirectory directory;
  Files files;
  std::filesystem::create_directories(directory / "d/e");
  put(directory / "d/a", "");
  put(directory / "b", "");
  const auto path = [&](const char* name) { return directory / name; };
  const std::vector<std::function<void()>> changes = {
      [&] { files.create(path("d/new")); },
      [&] { files.append(path("d/a")); },
      [&] { files.open_or_create(path("d/a")); },
      [&] { files.make_directory(path("d/new")); },
      [&] { files.rename_new(path("b"), path("d/b")); },
      [&] { files.rename_over(path("b"), path("d/a")); },
      [&] { files.rename_new(path("d/a"), path("c")); },
      [&] { files.rename_over(path("d/a"), path("b")); },
      [&] { files.make_symlink("a", path("d/new")); },
      [&] { files.remove_file(path("d/a")); },
      [&] { files.remove_empty_directory(path("d/e")); },
      [&] { files.remove_flat_directory(path("d/e"), [](std::string_view) { return true; }); },
      [&] { replace_file_durably(files, path("d/a"), "new"); },
  };
  files.guard(directory / "d", [] { throw Error(ErrorKind::run, "not ours"); });
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    CHECK(error_of(changes[i]).kind == ErrorKind::run);
  }
  CHECK(files.list(directory / "d").size() == 2);
  CHECK(get(directory / "d/a").empty());
  CHECK_NOTHROW(files.create(path("d2")));
  CHECK_NOTHROW(files.rename_new(path("b"), path("c")));
  files.unguard(directory / "d");
  CHECK_NOTHROW(files.create(path("d/new")));
}

TEST_CASE("files: a lock is exclusive and goes with its file") {
  const TemporaryDirectory directory;
  Files files;
  File first = files.open_or_create(directory / "lock");
  CHECK(first.lock() == File::Lock::taken);
  File second = files.open_or_create(directory / "lock");
  CHECK(second.lock() == File::Lock::busy);
  CHECK(first.is_current());
  files.remove_file(directory / "lock");
  CHECK_FALSE(first.is_current());
  first = File();
  CHECK(second.lock() == File::Lock::taken);
}

TEST_CASE("files: shared locks stand beside each other and against an exclusive one") {
  const TemporaryDirectory directory;
  Files files;
  put(directory / "lock", "");
  File reader = files.open_read(directory / "lock"), other = files.open_read(directory / "lock");
  CHECK(reader.lock(File::LockMode::shared) == File::Lock::taken);
  CHECK(other.lock(File::LockMode::shared) == File::Lock::taken);
  File writer = files.open_or_create(directory / "lock");
  CHECK(writer.lock() == File::Lock::busy);
  reader = File();
  other = File();
  CHECK(writer.lock() == File::Lock::taken);
  CHECK(files.open_read(directory / "lock").lock(File::LockMode::shared) == File::Lock::busy);
}

TEST_CASE("files: a replaced file is the old one or the new one, whatever call fails or is the last") {
  for (const Fault fault :
       {Fault::fail_once, Fault::fail_always, Fault::die_before, Fault::die_within, Fault::die_after}) {
    for (int at = 1;; ++at) {
      const TemporaryDirectory directory;
      put(directory / "a", "old content");
      FaultyFiles files(fault, at);
      bool returned = false;
      try {
        replace_file_durably(files, directory / "a", "new content, longer");
        returned = true;
      } catch (const Error& error) {
        CHECK(error.kind == ErrorKind::io);
      } catch (const Death&) {
      }
      const std::string content = get(directory / "a");
      CAPTURE(static_cast<int>(fault), at, content);
      REQUIRE((content == "new content, longer" || (!returned && content == "old content")));
      if (fault == Fault::fail_once) REQUIRE(Files().list(directory.path()).size() == 1);
      if (files.calls() < at) {
        REQUIRE(returned);
        break;
      }
    }
  }
}

TEST_CASE("files: temporary names are known again") {
  CHECK(is_temporary_name(temporary_name("step-000000020")));
  CHECK(is_temporary_name(temporary_name("config.json")));
  CHECK(is_temporary_name(".tmp-a-12-0123456789abcdef"));
  for (const char* name :
       {"", ".tmp-", ".tmp-a", ".tmp-12-0123456789abcdef", ".tmp-a-12-0123456789abcde",
        ".tmp-a-x2-0123456789abcdef", ".tmp-a-12-0123456789abcdeF", "tmp-a-12-0123456789abcdef",
        ".tmp-a--0123456789abcdef", ".tmp--0123456789abcdef"}) {
    CAPTURE(name);
    CHECK_FALSE(is_temporary_name(name));
  }
}
