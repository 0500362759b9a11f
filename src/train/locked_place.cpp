#include "locked_place.hpp"

#include <string>
#include <system_error>

#include "quern/base/check.hpp"

namespace quern {

namespace fs = std::filesystem;

fs::path without_links(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error || real == fs::absolute(path).lexically_normal()) return path;
  const fs::path relative = real.lexically_relative(fs::current_path());
  return relative.empty() || *relative.begin() == ".." ? real : relative;
}

void require_own_directories(const Files& files, const fs::path& run) {
  for (const std::string_view name : kDirectoryNames) {
    const EntryKind kind = files.kind(run / name);
    if (kind == EntryKind::missing || kind == EntryKind::directory) continue;
    throw Error(ErrorKind::run,
                std::string("is ") + (kind == EntryKind::symlink ? "a symbolic link" : "no directory") +
                    " where the run needs a directory of its own",
                "put the directory itself there, or move this away", (run / name).string());
  }
}

LockedPlace::LockedPlace(const File& lock)
    : path_(lock.path().parent_path()), directory_(identity_of(path_)), lock_(lock.identity()) {}

void LockedPlace::require_unchanged(const Files& files) const {
  if (identity_of(path_) != directory_)
    throw Error(
        ErrorKind::run,
        "the run's directory was moved, removed or replaced while it trained; nothing more was written",
        "resume the run where it is now", path_.string());
  if (identity_of(path_ / kLockName, Links::refuse) != lock_)
    throw Error(
        ErrorKind::run,
        "the run's lock was removed or replaced while it trained: another trainer may be at work here",
        "see that there is none, then resume the run", (path_ / kLockName).string());
  require_own_directories(files, path_);
}

}  // namespace quern
