#include "quern/base/durable.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "quern/base/check.hpp"

namespace quern {

namespace fs = std::filesystem;

namespace {

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

void replace_file(Files& files, const fs::path& path, std::string_view content) {
  const fs::path temporary = directory_of(path) / temporary_name(path.filename().string());
  File file = files.create(temporary);
  try {
    file.preallocate(content.size());
    file.write(content);
    file.sync();
    file.close();
    files.rename_over(temporary, path);
  } catch (const Error&) {
    try {
      files.remove_file(temporary);
    } catch (const Error&) {
      // The first error is the one to tell.
    }
    throw;
  }
}

void replace_file_durably(Files& files, const fs::path& path, std::string_view content) {
  replace_file(files, path, content);
  files.sync_directory(directory_of(path));
}

std::string temporary_name(std::string_view stem) {
  std::uint64_t random = 0;
  QUERN_CHECK(::getrandom(&random, sizeof random, 0) == static_cast<ssize_t>(sizeof random));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(random));
  return ".tmp-" + std::string(stem) + "-" + std::to_string(::getpid()) + "-" + digits;
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(".tmp-")) return false;
  const std::size_t random = name.rfind('-');
  const std::size_t process = random == 4 ? 4 : name.rfind('-', random - 1);
  if (process <= 4 || name.size() - random != 17 || random - process < 2) return false;
  const auto only = [](std::string_view part, std::string_view allowed) {
    return part.find_first_not_of(allowed) == std::string_view::npos;
  };
  return only(name.substr(random + 1), "0123456789abcdef") &&
         only(name.substr(process + 1, random - process - 1), "0123456789");
}

}  // namespace quern
