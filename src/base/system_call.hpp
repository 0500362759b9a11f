// What the classes of files share: a system call that was refused becomes one clear error.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>

namespace quern {

/// The system refused `action`, e.g. "write to the file"; `needed` counts bytes, 0 where it is not known.
/// Throws Error(io).
[[noreturn]] void refuse(const char* action, const std::filesystem::path& path, int error,
                         std::uint64_t needed = 0);

/// Throws Error(file): what is wrong with the file at `path`.
[[noreturn]] void bad_input(const std::string& what, const std::filesystem::path& path,
                            const std::string& hint = {});

/// What fstat says; `path` stands in messages.
struct stat stat_of(int descriptor, const std::filesystem::path& path);

template <class Call>
auto repeat_interrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace quern
