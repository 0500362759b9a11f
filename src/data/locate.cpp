#include "quern/data/locate.hpp"

#include <string>
#include <system_error>
#include <vector>

#include "quern/base/check.hpp"

namespace quern {

std::filesystem::path find_data_directory(std::span<const std::filesystem::path> candidates) {
  std::string tried;
  for (const std::filesystem::path& candidate : candidates) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate / "toy.txt", ignored)) return candidate.lexically_normal();
    tried += (tried.empty() ? "" : ", ") + candidate.lexically_normal().string();
  }
  throw Error(ErrorKind::file, "the embedded corpus toy.txt was not found; looked in: " + tried,
              "install quern with `cmake --install`, or name a text of your own in data.text");
}

std::filesystem::path data_directory() {
  std::vector<std::filesystem::path> candidates;
  std::error_code failed;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    candidates.push_back(executable.parent_path() / "../data");
    candidates.push_back(executable.parent_path() / "../share/quern/data");
  }
#ifdef QUERN_SOURCE_DATA_DIR
  candidates.emplace_back(QUERN_SOURCE_DATA_DIR);
#endif
  return find_data_directory(candidates);
}

}  // namespace quern
