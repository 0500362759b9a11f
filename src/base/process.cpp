#include "quern/base/process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace quern {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The value of "name: 123 kB" in a file of /proc, in bytes; `otherwise` when there is none.
std::int64_t kilobytes_of(const char* file, const std::string& name, std::int64_t otherwise) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return otherwise;
}

/// The value of "name 123" in a cgroup's memory.stat; 0 when there is none.
std::int64_t stat_of(const std::string& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (std::int64_t value = 0; in >> name >> value;)
    if (name == wanted) return value;
  return 0;
}

/// The names of one version of cgroups: where its groups lie, and what their files are called.
struct CgroupNames {
  const char *root, *limit, *use, *cached;
};
constexpr CgroupNames version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file"};
constexpr CgroupNames version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/// What a cgroup leaves: its limit less its use, where cached file pages count as free.
std::int64_t left_in(const std::string& group, const CgroupNames& names) {
  std::ifstream limit_file(group + "/" + names.limit), current_file(group + "/" + names.use);
  std::int64_t limit = 0, current = 0;
  if (!(limit_file >> limit) || !(current_file >> current)) return unlimited;  // the limit may be "max"
  return std::max<std::int64_t>(0, limit - current + stat_of(group + "/memory.stat", names.cached));
}

// With strings: std::filesystem::path, joined while memory runs out, crashes in libstdc++ 12, and this is
// asked when there may be none.
std::int64_t left_in_cgroups() {
  std::ifstream in("/proc/self/cgroup");
  std::int64_t least = unlimited;
  for (std::string line; std::getline(in, line);) {  // "0::/path" of version 2, "4:memory:/path" of version 1
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",memory,") == std::string::npos) continue;
    const CgroupNames& names = controllers == ",," ? version_2 : version_1;
    std::string below = line.substr(second + 1);
    while (below.ends_with('/')) below.pop_back();
    for (;; below.erase(below.rfind('/'))) {  // every group above limits too
      least = std::min(least, left_in(names.root + below, names));
      if (below.find('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

double process_age_seconds() {
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string text;
  std::getline(stat, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));  // the name may hold blanks
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  double up = 0;
  uptime >> up;
  return up - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  return in >> size >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

std::int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const std::int64_t used = kilobytes_of("/proc/self/status", "VmSize", 0);
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - used);
}

void release_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

std::int64_t available_memory() {
  const std::int64_t machine = kilobytes_of("/proc/meminfo", "MemAvailable", unlimited);
  return std::min({machine, left_in_cgroups(), address_space_left()});
}

std::int64_t total_memory() { return kilobytes_of("/proc/meminfo", "MemTotal", 0); }

}  // namespace quern
