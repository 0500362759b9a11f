#include "system_call.hpp"

#include <sys/statvfs.h>

#include <string>
#include <system_error>

#include "quern/base/check.hpp"

namespace quern {

namespace fs = std::filesystem;

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space there, or use a directory on another disk";
    case EROFS:
    case EACCES:
    case EPERM: return "use a directory that this user may write to, or change its permissions";
    case EFBIG: return "files of that size are not allowed here; see `ulimit -f`";
    case EMFILE: return "too many files are open; see `ulimit -n`";
    default: return {};
  }
}

}  // namespace

void refuse(const char* action, const fs::path& path, int error, std::uint64_t needed) {
  std::string what = std::string("cannot ") + action + ": " + reason(error);
  if (error == ENOSPC || error == EDQUOT) {
    if (needed > 0) what += ", " + std::to_string(needed) + " bytes needed";
    struct statvfs disk {};
    const fs::path where = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (::statvfs(where.c_str(), &disk) == 0) {
      const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
      what += ", " + std::to_string(free) + " bytes free";
    }
  }
  throw Error(ErrorKind::io, what, hint_for(error), path.string());
}

void bad_input(const std::string& what, const fs::path& path, const std::string& hint) {
  throw Error(ErrorKind::file, what, hint, path.string());
}

struct stat stat_of(int descriptor, const fs::path& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) refuse("look at the file", path, errno);
  return info;
}

}  // namespace quern
