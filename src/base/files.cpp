#include "quern/base/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "quern/base/check.hpp"
#include "system_call.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

EntryKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::file;
  if (S_ISDIR(mode)) return EntryKind::directory;
  if (S_ISLNK(mode)) return EntryKind::symlink;
  return EntryKind::other;
}

// Takes over `descriptor`.
std::vector<DirectoryEntry> entries_of(int descriptor, const fs::path& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(descriptor), ::closedir);
  if (!directory) {
    const int error = errno;
    ::close(descriptor);
    refuse("list the directory", path, error);
  }
  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) refuse("list the directory", path, errno);
      break;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info {};
    if (::fstatat(::dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      refuse("look at the file", path / name, errno);
    }
    entries.push_back({name, kind_of(info.st_mode)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

constexpr mode_t kFileMode = 0666;       // less the umask
constexpr mode_t kDirectoryMode = 0777;  // less the umask

}  // namespace

File Files::open_read(const fs::path& path, Links links) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0);
  const int descriptor = repeat_interrupted([&] { return system_open(AT_FDCWD, path.c_str(), flags, 0); });
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG) bad_input("no such file", path);
    if (error == ELOOP) bad_input("is a symbolic link where a file is needed", path);
    if (error == ENXIO || error == ENODEV) bad_input("is not a regular file", path);
    refuse("open the file", path, error);
  }
  File file(*this, descriptor, path);
  const mode_t mode = stat_of(descriptor, path).st_mode;
  if (S_ISDIR(mode)) bad_input("is a directory where a file is needed", path);
  if (S_ISFIFO(mode)) bad_input("is a pipe where a regular file is needed", path);
  if (!S_ISREG(mode)) bad_input("is a device where a regular file is needed", path);
  return file;
}

File Files::open_for_writing(const fs::path& path, int flags, const char* action) {
  check_guard(path);
  // O_NONBLOCK: opening a pipe that nobody reads would wait for ever.
  flags |= O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
  const int descriptor =
      repeat_interrupted([&] { return system_open(AT_FDCWD, path.c_str(), flags, kFileMode); });
  const int error = errno;
  if (descriptor < 0 && error != ENXIO && error != ENODEV) refuse(action, path, error);
  File file(*this, descriptor, path);
  if (descriptor < 0 || !S_ISREG(stat_of(descriptor, path).st_mode))
    throw Error(ErrorKind::io, std::string("cannot ") + action + ": it is not a regular file",
                "move what is there away", path.string());
  return file;
}

File Files::create(const fs::path& path) {
  return open_for_writing(path, O_WRONLY | O_CREAT | O_EXCL, "create the file");
}

File Files::append(const fs::path& path) {
  return open_for_writing(path, O_WRONLY | O_CREAT | O_APPEND, "open the file for appending");
}

File Files::open_or_create(const fs::path& path) {
  return open_for_writing(path, O_RDWR | O_CREAT, "open the file for writing");
}

void Files::sync_directory(const fs::path& path) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const int descriptor = repeat_interrupted([&] { return system_open(AT_FDCWD, path.c_str(), flags, 0); });
  if (descriptor < 0) refuse("open the directory", path, errno);
  File directory(*this, descriptor, path);
  const int result = repeat_interrupted([&] { return system_sync(descriptor); });
  // EINVAL: a file system that has nothing to do for a directory.
  if (result < 0 && errno != EINVAL) refuse("bring the directory to the disk", path, errno);
  directory.close();
}

bool Files::make_directory(const fs::path& path) {
  check_guard(path);
  if (system_mkdir(path.c_str(), kDirectoryMode) == 0) return true;
  const int error = errno;
  std::error_code ignored;
  if (error == EEXIST && fs::is_directory(path, ignored)) return false;
  if (error == EEXIST || error == ENOTDIR) {
    throw Error(ErrorKind::io,
                "cannot make the directory: a file of that name, or in its path, is in the way",
                "use another path", path.string());
  }
  refuse("make the directory", path, error);
}

void Files::rename_new(const fs::path& from, const fs::path& to) {
  check_guard(from);
  check_guard(to);
  if (system_rename(from.c_str(), to.c_str(), RENAME_NOREPLACE) == 0) return;
  int error = errno;
  if (error == EINVAL || error == ENOSYS) {
    // A file system without RENAME_NOREPLACE. The caller holds the run's lock, so nobody comes in between.
    if (kind(to) != EntryKind::missing) refuse("rename to a name in use", to, EEXIST);
    if (system_rename(from.c_str(), to.c_str(), 0) == 0) return;
    error = errno;
  }
  refuse("rename to this name", to, error);
}

void Files::rename_over(const fs::path& from, const fs::path& to) {
  check_guard(from);
  check_guard(to);
  if (system_rename(from.c_str(), to.c_str(), 0) != 0) refuse("rename to this name", to, errno);
}

void Files::make_symlink(const fs::path& target, const fs::path& path) {
  check_guard(path);
  if (system_symlink(target.c_str(), path.c_str()) != 0) refuse("make the symbolic link", path, errno);
}

void Files::remove_file(const fs::path& path) {
  check_guard(path);
  if (system_unlink(AT_FDCWD, path.c_str(), 0) != 0) refuse("delete the file", path, errno);
}

void Files::remove_empty_directory(const fs::path& path) {
  check_guard(path);
  if (system_unlink(AT_FDCWD, path.c_str(), AT_REMOVEDIR) != 0) refuse("delete the directory", path, errno);
}

bool Files::remove_flat_directory(const fs::path& path, const std::function<bool(std::string_view)>& ours) {
  check_guard(path);
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
  const int descriptor = repeat_interrupted([&] { return system_open(AT_FDCWD, path.c_str(), flags, 0); });
  if (descriptor < 0) refuse("open the directory", path, errno);
  const File directory(*this, descriptor, path);
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) refuse("list the directory", path, errno);
  bool all = true;
  for (const DirectoryEntry& entry : entries_of(copy, path)) {
    if (entry.kind == EntryKind::directory || !ours(entry.name)) {
      all = false;
    } else if (system_unlink(descriptor, entry.name.c_str(), 0) != 0) {
      refuse("delete the file", path / entry.name, errno);
    }
  }
  if (all) remove_empty_directory(path);
  return all;
}

void Files::guard(const fs::path& place, std::function<void()> check) { guards_[place] = std::move(check); }

void Files::unguard(const fs::path& place) { guards_.erase(place); }

void Files::check_guard(const fs::path& path) const {
  const std::string_view name = path.native();
  for (const auto& [place, check] : guards_)
    if (name.starts_with(place.native()) && name.substr(place.native().size()).starts_with('/')) check();
}

EntryKind Files::kind(const fs::path& path) const {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return kind_of(info.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) return EntryKind::missing;
  refuse("look at the file", path, errno);
}

std::vector<DirectoryEntry> Files::list(const fs::path& path) const {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) bad_input("no such directory", path);
    refuse("list the directory", path, errno);
  }
  return entries_of(descriptor, path);
}

int Files::system_open(int directory, const char* path, int flags, mode_t mode) {
  return ::openat(directory, path, flags, mode);
}
int Files::system_close(int descriptor) { return ::close(descriptor); }
ssize_t Files::system_write(int descriptor, const void* data, std::size_t bytes) {
  return ::write(descriptor, data, bytes);
}
ssize_t Files::system_pread(int descriptor, void* data, std::size_t bytes, off_t offset) {
  return ::pread(descriptor, data, bytes, offset);
}
int Files::system_preallocate(int descriptor, off_t bytes) {
  errno = ::posix_fallocate(descriptor, 0, bytes);
  return errno == 0 ? 0 : -1;
}
int Files::system_truncate(int descriptor, off_t bytes) { return ::ftruncate(descriptor, bytes); }
int Files::system_sync(int descriptor) { return ::fsync(descriptor); }
int Files::system_rename(const char* from, const char* to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}
int Files::system_unlink(int directory, const char* path, int flags) {
  return ::unlinkat(directory, path, flags);
}
int Files::system_mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }
int Files::system_symlink(const char* target, const char* path) { return ::symlink(target, path); }

// ---- helpers

std::optional<FileIdentity> identity_of(const fs::path& path, Links links) {
  struct stat info {};
  const int result = links == Links::follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info);
  if (result != 0 && errno != ENOENT && errno != ENOTDIR) refuse("look at the file", path, errno);
  if (result != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

std::string read_file(Files& files, const fs::path& path, std::uint64_t max_bytes, Links links) {
  const File file = files.open_read(path, links);
  const std::uint64_t bytes = file.size();
  if (bytes > max_bytes) {
    bad_input("the file has " + std::to_string(bytes) + " bytes, more than the " + std::to_string(max_bytes) +
                  " allowed here",
              path);
  }
  std::string content(bytes, '\0');
  file.read_at(0, content.data(), content.size());
  return content;
}

std::string read_file(const fs::path& path, std::uint64_t max_bytes) {
  Files files;
  return read_file(files, path, max_bytes);
}

}  // namespace quern
