#include "cgroups.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

namespace quern {
namespace {

enum class Version { one, two };

/// Calls visit(directory, version) for each group that may limit this process by `controller`: its own and
/// those above.
// With strings: std::filesystem::path, joined while memory runs out, crashes in libstdc++ 12, and this is
// asked when there may be none.
template <class Visit>
void each_cgroup(const std::string& root, const std::string& controller, const Visit& visit) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/path" of version 2, "4:memory:/path" of version 1
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const Version version = controllers == ",," ? Version::two : Version::one;
    if (version == Version::one && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (version == Version::one ? "/" + controller : "");
    std::string below = line.substr(second + 1);
    while (below.ends_with('/')) below.pop_back();
    for (;; below.erase(below.rfind('/'))) {
      visit(mount + below, version);
      if (below.find('/') == std::string::npos) break;
    }
  }
}

/// The value of "name 123" in a cgroup's memory.stat; 0 when there is none.
std::int64_t stat_of(const std::string& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (std::int64_t value = 0; in >> name >> value;)
    if (name == wanted) return value;
  return 0;
}

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The names of a group's files of memory.
struct MemoryFiles {
  const char *limit, *use, *cached;
};
constexpr MemoryFiles version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr MemoryFiles version_2 = {"memory.max", "memory.current", "inactive_file"};

/// What a cgroup leaves: its limit less its use, where cached file pages count as free.
std::int64_t memory_left_in(const std::string& group, const MemoryFiles& names) {
  std::ifstream limit_file(group + "/" + names.limit), current_file(group + "/" + names.use);
  std::int64_t limit = 0, current = 0;
  if (!(limit_file >> limit) || !(current_file >> current)) return unlimited;  // the limit may be "max"
  return std::max<std::int64_t>(0, limit - current + stat_of(group + "/memory.stat", names.cached));
}

/// Microseconds of CPU that a group has in each microsecond; infinity when it has no quota.
double cores_in(const std::string& group, Version version) {
  double quota = 0, period = 0;  // no quota: version 2 says "max", version 1 says -1
  if (version == Version::two) {
    std::ifstream in(group + "/cpu.max");
    in >> quota >> period;
  } else {
    std::ifstream quota_file(group + "/cpu.cfs_quota_us"), period_file(group + "/cpu.cfs_period_us");
    quota_file >> quota, period_file >> period;
  }
  return quota > 0 && period > 0 ? quota / period : HUGE_VAL;
}

}  // namespace

std::int64_t memory_left_in_cgroups(const std::string& root) {
  std::int64_t least = unlimited;
  each_cgroup(root, "memory", [&](const std::string& group, Version version) {
    least = std::min(least, memory_left_in(group, version == Version::one ? version_1 : version_2));
  });
  return least;
}

int cores_in_cgroups(const std::string& root) {
  double least = std::numeric_limits<int>::max();
  each_cgroup(root, "cpu", [&](const std::string& group, Version version) {
    least = std::min(least, std::ceil(cores_in(group, version)));
  });
  return static_cast<int>(least);
}

}  // namespace quern
