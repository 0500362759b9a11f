// Descriptors that are no files of ours: what others read while we write.
#pragma once

#include <string_view>

namespace quern {

/// Writes all of `text` to a pipe, a terminal or whatever stdout is. False when nobody reads any more; any
/// other failure throws Error io: `what` ("cannot write …") and the system's reason.
bool write_all(int descriptor, std::string_view text, const char* what);

}  // namespace quern
