// Where a run lies: the one directory that a trainer has locked, told from whatever else its path leads to.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "quern/base/files.hpp"

namespace quern {

constexpr std::string_view kLockName = "lock";
constexpr std::array<std::string_view, 3> kDirectoryNames{"ckpt", "tb", "samples"};

/// The path without symbolic links, relative if below the current folder; as it was given where it has no
/// link, or leads nowhere.
std::filesystem::path without_links(const std::filesystem::path& path);

/// ErrorKind::run when ckpt, tb or samples is anything but a directory: a link would lead deletions to
/// somebody else's files.
void require_own_directories(const Files& files, const std::filesystem::path& run);

/// A run's directory whose lock is held.
class LockedPlace {
 public:
  explicit LockedPlace(const File& lock);

  /// ErrorKind::run when the path leads to another directory by now, the lock's file is another or gone, or
  /// one of the run's own directories is none.
  void require_unchanged(const Files& files) const;

 private:
  std::filesystem::path path_;
  std::optional<FileIdentity> directory_;
  FileIdentity lock_;  // of a file that is open, so that no other gets its number
};

}  // namespace quern
