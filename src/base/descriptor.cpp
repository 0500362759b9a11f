#include "quern/base/descriptor.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "quern/base/check.hpp"

namespace quern {

bool write_all(int descriptor, std::string_view text, const char* what) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return false;
    } else if (errno != EINTR) {
      throw Error(ErrorKind::io, std::string(what) + ": " + std::generic_category().message(errno));
    }
  }
  return true;
}

}  // namespace quern
