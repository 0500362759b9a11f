// An open file or directory: see Files, which makes them.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "system_call.hpp"

namespace quern {

namespace fs = std::filesystem;

File::File(Files& files, int descriptor, fs::path path)
    : files_(&files), descriptor_(descriptor), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : files_(other.files_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    drop();
    files_ = other.files_;
    descriptor_ = std::exchange(other.descriptor_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

File::~File() { drop(); }

void File::drop() noexcept {
  if (descriptor_ < 0) return;
  try {
    files_->system_close(descriptor_);
  } catch (...) {
    // Only a test's system call throws, to stand for the death of the process.
  }
  descriptor_ = -1;
}

void File::write(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written =
        repeat_interrupted([&] { return files_->system_write(descriptor_, next, bytes); });
    if (written < 0) refuse("write to the file", path_, errno, bytes);
    if (written == 0) refuse("write to the file", path_, EIO, bytes);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void File::preallocate(std::uint64_t bytes) {
  if (bytes == 0) return;
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    refuse("reserve space for the file", path_, EFBIG, bytes);
  }
  const int result =
      repeat_interrupted([&] { return files_->system_preallocate(descriptor_, static_cast<off_t>(bytes)); });
  if (result < 0) refuse("reserve space for the file", path_, errno, bytes);
}

void File::truncate(std::uint64_t bytes) {
  const int result =
      repeat_interrupted([&] { return files_->system_truncate(descriptor_, static_cast<off_t>(bytes)); });
  if (result < 0) refuse("cut the file", path_, errno, bytes);
}

void File::sync() {
  if (repeat_interrupted([&] { return files_->system_sync(descriptor_); }) < 0) {
    refuse("bring the file to the disk", path_, errno);
  }
}

void File::close() {
  // Linux frees the descriptor whatever close returns, so it is never closed again.
  const int result = files_->system_close(std::exchange(descriptor_, -1));
  if (result < 0 && errno != EINTR) refuse("close the file", path_, errno);
}

void File::read_at(std::uint64_t offset, void* data, std::size_t bytes) const {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = repeat_interrupted(
        [&] { return files_->system_pread(descriptor_, next, bytes, static_cast<off_t>(offset)); });
    if (got < 0) refuse("read the file", path_, errno);
    if (got == 0) {
      bad_input("the file ends at byte " + std::to_string(offset) + " where " + std::to_string(bytes) +
                    " more were expected",
                path_);
    }
    next += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::uint64_t File::size() const { return static_cast<std::uint64_t>(stat_of(descriptor_, path_).st_size); }

File::Lock File::lock(LockMode mode) {
  const int operation = (mode == LockMode::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  if (repeat_interrupted([&] { return ::flock(descriptor_, operation); }) == 0) return Lock::taken;
  if (errno == EWOULDBLOCK) return Lock::busy;
  if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return Lock::unsupported;
  refuse("lock the file", path_, errno);
}

FileIdentity File::identity() const {
  const struct stat info = stat_of(descriptor_, path_);
  return {info.st_dev, info.st_ino};
}

bool File::is_current() const { return identity_of(path_, Links::refuse) == identity(); }

}  // namespace quern
