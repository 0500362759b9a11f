// Files: every read and write that must be right goes through here. EINTR and short transfers are repeated,
// every call is checked, and an error says what failed, where and why. Tests replace the system calls
// beneath.
//
// Errors: ErrorKind::io for the system's refusals (disk full, permission, read-only, damaged disk), with the
// bytes needed and free where space ran out; ErrorKind::file where an input is missing or is not a regular
// file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

class Files;

/// Which file or directory it is, whatever it is called; told apart from others as long as it exists.
struct FileIdentity {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// An open file or directory. The destructor closes without a check; call close() where a lost write matters.
class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  bool is_open() const { return descriptor_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  /// For whoever writes by himself; -1 when nothing is open.
  int descriptor() const { return descriptor_; }

  /// All bytes, at the end of a file opened by append(), else behind those written before.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Reserves `bytes` bytes on the disk, so that a full disk shows before anything is written; sets the size.
  void preallocate(std::uint64_t bytes);
  void truncate(std::uint64_t bytes);
  /// fsync: on return, what was written (or, of a directory, which names it holds) outlasts a loss of power.
  void sync();
  void close();

  /// Exactly `bytes` bytes from `offset`; ErrorKind::file with the offset where the file ends before.
  void read_at(std::uint64_t offset, void* data, std::size_t bytes) const;
  std::uint64_t size() const;
  /// flock without waiting: exclusive, or shared with others that only look whether it is held.
  /// unsupported: the file system has no such locks.
  enum class Lock { taken, busy, unsupported };
  enum class LockMode { exclusive, shared };
  Lock lock(LockMode mode = LockMode::exclusive);
  FileIdentity identity() const;
  /// Whether path() still names this very file.
  bool is_current() const;

 private:
  friend class Files;
  File(Files& files, int descriptor, std::filesystem::path path);
  void drop() noexcept;

  Files* files_ = nullptr;
  int descriptor_ = -1;
  std::filesystem::path path_;
};

/// What a name in a directory stands for; a symbolic link is not followed.
enum class EntryKind { missing, file, directory, symlink, other };

struct DirectoryEntry {
  std::string name;
  EntryKind kind;
};

enum class Links { follow, refuse };

class Files {
 public:
  Files() = default;
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  virtual ~Files() = default;

  /// An input: must exist and be a regular file (never blocks on a pipe). refuse: nor a symbolic link.
  File open_read(const std::filesystem::path& path, Links links = Links::follow);
  /// A file that must not exist yet.
  File create(const std::filesystem::path& path);
  /// A file that is made if missing; each write goes to its end.
  File append(const std::filesystem::path& path);
  /// A file that is made if missing and kept as it is, for reading and writing: a lock.
  File open_or_create(const std::filesystem::path& path);

  void sync_directory(const std::filesystem::path& path);
  /// False when there is such a directory already.
  bool make_directory(const std::filesystem::path& path);
  /// The rename fails when `to` exists.
  void rename_new(const std::filesystem::path& from, const std::filesystem::path& to);
  /// The rename takes the place of a file `to` at once.
  void rename_over(const std::filesystem::path& from, const std::filesystem::path& to);
  void make_symlink(const std::filesystem::path& target, const std::filesystem::path& path);
  void remove_file(const std::filesystem::path& path);
  void remove_empty_directory(const std::filesystem::path& path);
  /// Deletes the files (not directories) of a directory that `ours` accepts, by descriptor and without
  /// following a link, then the directory if nothing is left. Returns whether it is gone.
  bool remove_flat_directory(const std::filesystem::path& path,
                             const std::function<bool(std::string_view)>& ours);

  /// From now on calls `check` before anything below `place` is made, renamed or deleted; it throws where
  /// that must not be. Paths below `place` are those that begin with it as it is spelt here.
  void guard(const std::filesystem::path& place, std::function<void()> check);
  void unguard(const std::filesystem::path& place);
  /// Throws what the guard of a place above `path` throws, if there is one.
  void check_guard(const std::filesystem::path& path) const;

  EntryKind kind(const std::filesystem::path& path) const;
  /// The names of a directory in order, without "." and "..".
  std::vector<DirectoryEntry> list(const std::filesystem::path& path) const;

 protected:
  // One system call each, with its errno; path arguments are relative to `directory` or AT_FDCWD.
  virtual int system_open(int directory, const char* path, int flags, mode_t mode);
  virtual int system_close(int descriptor);
  virtual ssize_t system_write(int descriptor, const void* data, std::size_t bytes);
  virtual ssize_t system_pread(int descriptor, void* data, std::size_t bytes, off_t offset);
  virtual int system_preallocate(int descriptor, off_t bytes);
  virtual int system_truncate(int descriptor, off_t bytes);
  virtual int system_sync(int descriptor);
  virtual int system_rename(const char* from, const char* to, unsigned flags);
  virtual int system_unlink(int directory, const char* path, int flags);
  virtual int system_mkdir(const char* path, mode_t mode);
  virtual int system_symlink(const char* target, const char* path);

 private:
  friend class File;
  File open_for_writing(const std::filesystem::path& path, int flags, const char* action);

  std::map<std::filesystem::path, std::function<void()>> guards_;  // by place
};

/// The identity of what `path` leads to, or of a link itself; nullopt where there is nothing.
std::optional<FileIdentity> identity_of(const std::filesystem::path& path, Links links = Links::follow);

/// "runs/one/" as "runs/one", so that its last part is a name.
std::filesystem::path without_slash(const std::filesystem::path& path);

/// The whole of a regular file of at most `max_bytes` bytes; ErrorKind::file for one that is missing, larger,
/// a directory, a pipe or a device.
std::string read_file(Files& files, const std::filesystem::path& path, std::uint64_t max_bytes,
                      Links links = Links::follow);
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace quern
