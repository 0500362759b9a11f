// Replacing a file so that it is never seen in part.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "quern/base/files.hpp"

namespace quern {

/// Afterwards `path` holds `content`, also when the power fails; at any moment before, the old content or the
/// new, never a part: writes a file `.tmp-…` beside it, fsync, rename, fsync of the directory.
void replace_file_durably(Files& files, const std::filesystem::path& path, std::string_view content);

/// The same but for the fsync of the directory: until somebody does that, the old content may come back.
void replace_file(Files& files, const std::filesystem::path& path, std::string_view content);

/// ".tmp-<stem>-<pid>-<16 hex digits>": a name that nobody else uses.
std::string temporary_name(std::string_view stem);
/// Whether temporary_name could have made it.
bool is_temporary_name(std::string_view name);

}  // namespace quern
