#include "quern/train/run_directory.hpp"

#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "locked_place.hpp"
#include "quern/base/check.hpp"
#include "quern/base/durable.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/checkpoint_store.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kResolvedName = "config.resolved.json";

// What a run consists of, and so all that --overwrite may delete; "lock" stays.
constexpr std::array<std::string_view, 9> kFileNames{kResolvedName,    "config.json",   "env.json",
                                                     "tokenizer.json", "metrics.jsonl", "latest",
                                                     "report.html",    "log.txt",       "trace.json"};

bool is_run_name(std::string_view name) {
  const auto is = [&](std::string_view other) { return other == name; };
  return name == kLockName || is_temporary_name(name) ||
         std::any_of(kFileNames.begin(), kFileNames.end(), is) ||
         std::any_of(kDirectoryNames.begin(), kDirectoryNames.end(), is);
}

bool is_sample_or_event_file(std::string_view name) {
  return name.starts_with("step-") || name.starts_with("events.out.tfevents.");
}

[[noreturn]] void refuse_directory(DirectoryState state, const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    throw Error(ErrorKind::io, "is a file where a run's directory is needed", "choose another --run-dir",
                path.string());
  }
  if (state == DirectoryState::run) {
    throw Error(
        ErrorKind::run, "the directory holds a run already",
        "--resume " + shell_word(path.string()) + " goes on with it, --overwrite deletes it and starts again",
        path.string());
  }
  throw Error(ErrorKind::run, "the directory is not empty and holds no run",
              "choose another --run-dir; --resume and --overwrite work on runs only", path.string());
}

void check_name(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 100 && name[0] != '.' && name[0] != '-' &&
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
          std::string::npos;
  if (good) return;
  throw Error(ErrorKind::config, "run.name: not a name for a directory",
              "letters, digits, '.', '_' and '-', at most 100, the first a letter, digit or '_'", name);
}

// <name>-<UTC yyyymmdd-hhmmss>-<4 hex>
std::string dated_name(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32];
  QUERN_CHECK(std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", &utc) > 0);
  std::uint16_t random = 0;
  QUERN_CHECK(::getrandom(&random, sizeof random, 0) == static_cast<ssize_t>(sizeof random));
  char hex[5];
  std::snprintf(hex, sizeof hex, "%04x", static_cast<unsigned>(random));
  return name + "-" + time + "-" + hex;
}

// Makes `path` and the directories above it; returns whether `path` itself is new.
bool make_directories(Files& files, const fs::path& path) {
  const fs::path parent = path.parent_path();
  std::error_code ignored;
  if (!parent.empty() && !fs::is_directory(parent, ignored)) make_directories(files, parent);
  if (!files.make_directory(path)) return false;
  files.sync_directory(parent.empty() ? fs::path(".") : parent);
  return true;
}

// The process that a lock file names; nullopt when it names none.
std::optional<pid_t> process_in(const File& lock) {
  std::array<char, 32> text{};
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(lock.size(), text.size()));
  lock.read_at(0, text.data(), bytes);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + bytes, process);
  if (error != std::errc{} || end == text.data() + bytes || *end != '\n' || process <= 0) return std::nullopt;
  return process;
}

bool is_alive(pid_t process) { return ::kill(process, 0) == 0 || errno == EPERM; }

// Tries for the lock. Busy is not yet the answer: a reader's in_use() holds it for an instant, and a trainer
// writes its id just after it has it. So the lock is tried again until a living process stands in it, for a
// quarter of a second at most; an id of another container is not seen as living, but still told. `holder` is
// 0 where none is known.
File::Lock take(File& lock, pid_t& holder) {
  for (int attempt = 0;; ++attempt) {
    const File::Lock result = lock.lock();
    if (result != File::Lock::busy) return result;
    try {
      holder = process_in(lock).value_or(0);
    } catch (const Error&) {
      holder = 0;  // cut short by its owner while it was read
    }
    if (attempt == 25 || (attempt > 0 && holder != 0 && is_alive(holder))) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

DirectoryState directory_state(const Files& files, const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) {
    const EntryKind kind = files.kind(directory);
    if (kind == EntryKind::missing) return DirectoryState::missing;
    // A directory by now: another start has just made it.
    if (kind != EntryKind::directory) return DirectoryState::foreign;
  }
  bool locked_once = false;
  bool only_ours = true;
  bool empty = true;
  for (const DirectoryEntry& entry : files.list(directory)) {
    if (entry.name == kResolvedName && entry.kind == EntryKind::file) return DirectoryState::run;
    locked_once = locked_once || (entry.name == kLockName && entry.kind == EntryKind::file);
    only_ours = only_ours && is_run_name(entry.name);
    empty = false;
  }
  // A start takes the lock before anything else, so names like config.json without a lock are somebody
  // else's.
  return empty || (locked_once && only_ours) ? DirectoryState::vacant : DirectoryState::foreign;
}

void require_run(const Files& files, const fs::path& directory) {
  const DirectoryState state = directory_state(files, directory);
  if (state == DirectoryState::run) return;
  throw Error(ErrorKind::run,
              state == DirectoryState::missing ? "there is no such run" : "the directory holds no run",
              "a run is a directory that `quern train` has made, such as runs/latest", directory.string());
}

bool in_use(Files& files, const fs::path& directory) {
  const fs::path path = directory / kLockName;
  if (files.kind(path) != EntryKind::file) return false;
  File lock = files.open_read(path, Links::refuse);
  switch (lock.lock(File::LockMode::shared)) {
    case File::Lock::taken: return false;
    case File::Lock::busy: return true;
    case File::Lock::unsupported: break;
  }
  const std::optional<pid_t> process = process_in(lock);
  return process && is_alive(*process);
}

RunDirectory::RunDirectory(Files& files, fs::path path) : files_(&files), path_(std::move(path)) {}

RunDirectory RunDirectory::create(Files& files, const RunRequest& request) {
  const bool dated = request.directory.empty();
  if (dated) check_name(request.name);
  const fs::path path = dated ? request.root / dated_name(request.name) : without_slash(request.directory);
  const auto check = [&](DirectoryState state) {
    const bool good = state == DirectoryState::missing || state == DirectoryState::vacant ||
                      (state == DirectoryState::run && request.overwrite);
    if (!good) refuse_directory(state, path);
  };
  // Before the lock only what is foreign is refused: a run in use is told as such, not as one that exists.
  const DirectoryState before = directory_state(files, path);
  if (before != DirectoryState::run) check(before);
  RunDirectory run(files, path);
  run.root_ = request.root;
  run.fresh_ = make_directories(files, path);
  run.path_ = without_links(path);
  require_own_directories(files, run.path_);
  run.take_lock();
  // The lock outlasts a loss of power before any other name can: without it these would be somebody else's.
  if (before != DirectoryState::run) files.sync_directory(run.path_);
  check(directory_state(files, run.path_));
  run.probe();
  return run;
}

RunDirectory RunDirectory::resume(Files& files, const fs::path& directory) {
  const fs::path path = without_links(without_slash(directory));
  require_run(files, path);
  require_own_directories(files, path);
  RunDirectory run(files, path);
  run.take_lock();
  run.probe();
  CheckpointStore(files, run.path()).clean();
  return run;
}

RunDirectory::~RunDirectory() {
  if (!lock_.is_open()) return;
  try {
    // With anything beside the lock it stays: without one, what a failure left would be taken for somebody
    // else's.
    if (fresh_ && files_->list(path_).size() == 1) {
      files_->remove_file(lock_.path());
      files_->remove_empty_directory(path_);
    } else {
      lock_.truncate(0);
    }
  } catch (...) {
    // The lock itself goes with its descriptor; what is left does no harm.
  }
  files_->unguard(path_);
}

void RunDirectory::take_lock() {
  for (;;) {
    lock_ = files_->open_or_create(path_ / kLockName);
    pid_t process = 0;
    const File::Lock result = take(lock_, process);
    if (result == File::Lock::busy) {
      lock_ = File();
      fresh_ = false;
      const std::string who = process != 0 ? "process " + std::to_string(process) : "another process";
      throw Error(ErrorKind::run, "the run is in use by " + who,
                  "wait for it to end, or choose another --run-dir", path_.string());
    }
    if (result == File::Lock::unsupported) {
      warnings_.push_back("this file system has no locks: nothing keeps a second trainer out of " +
                          path_.string());
    }
    // Whoever held it before may have removed the file, and then this lock guards nothing.
    if (lock_.is_current()) break;
  }
  files_->guard(path_, [files = files_, place = LockedPlace(lock_)] { place.require_unchanged(*files); });
  lock_.truncate(0);
  lock_.write(std::to_string(::getpid()) + "\n");
}

void RunDirectory::probe() {
  for (const fs::path& directory : {path_, checkpoints()}) {
    if (files_->kind(directory) != EntryKind::directory) continue;  // there are no checkpoints yet
    const fs::path path = directory / temporary_name("probe");
    try {
      File file = files_->create(path);
      file.write("quern\n");
      file.sync();
      file.close();
    } catch (const Error&) {
      std::error_code ignored;
      fs::remove(path, ignored);
      throw;
    }
    files_->remove_file(path);
  }
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0) {
    warnings_.push_back("everyone may write to " + path_.string());
  }
}

void RunDirectory::begin(const RunTexts& texts) {
  remove_old_run();
  fresh_ = false;
  replace_file(*files_, config(), texts.config);
  replace_file(*files_, environment(), texts.environment);
  replace_file_durably(*files_, tokenizer(), texts.tokenizer);  // and with its name those of the others
  files_->create(metrics()).close();                            // which a checkpoint's offset stands for
  replace_file_durably(*files_, resolved_config(), texts.resolved_config);
  point_latest_here();
}

void RunDirectory::remove_old_run() {
  // config.resolved.json goes first: what an interruption leaves is then no run, but may be begun again.
  for (const std::string_view name : kFileNames) {
    const EntryKind kind = files_->kind(path_ / name);
    if (kind == EntryKind::file || kind == EntryKind::symlink) files_->remove_file(path_ / name);
    if (name == kResolvedName && kind != EntryKind::missing) files_->sync_directory(path_);
  }
  CheckpointStore store(*files_, path_);
  store.clean();
  store.discard_all();
  for (const fs::path& directory : {tensorboard(), samples()}) {
    if (files_->kind(directory) == EntryKind::directory) {
      files_->remove_flat_directory(directory, is_sample_or_event_file);
    }
  }
}

void RunDirectory::point_latest_here() {
  std::error_code ignored;
  const fs::path parent = fs::absolute(path_).lexically_normal().parent_path();
  if (!fs::equivalent(parent, root_, ignored)) return;
  const fs::path link = root_ / "latest";
  const EntryKind kind = files_->kind(link);
  if (kind != EntryKind::missing && kind != EntryKind::symlink) {
    warnings_.push_back(link.string() + " is not a symbolic link and is left as it is");
    return;
  }
  try {
    const fs::path temporary = root_ / temporary_name("latest");
    files_->make_symlink(path_.filename(), temporary);
    files_->rename_over(temporary, link);
  } catch (const Error& error) {
    warnings_.push_back(link.string() + " could not be made: " + error.what());
  }
}

}  // namespace quern
