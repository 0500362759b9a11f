#include "quern/base/process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The value of "name: 123 kB" in a file of /proc, in bytes; `otherwise` when there is none.
std::int64_t kilobytes_of(const char* file, const std::string& name, std::int64_t otherwise) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return otherwise;
}

/// The value of "name 123" in a cgroup's memory.stat; 0 when there is none.
std::int64_t stat_of(const fs::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (std::int64_t value = 0; in >> name >> value;)
    if (name == wanted) return value;
  return 0;
}

/// What a cgroup (v2) leaves: its limit less its use, where cached file pages count as free.
std::int64_t left_in(const fs::path& group) {
  std::ifstream limit_file(group / "memory.max"), current_file(group / "memory.current");
  std::string limit;
  std::int64_t current = 0;
  if (!(limit_file >> limit) || limit == "max" || !(current_file >> current)) return unlimited;
  const std::int64_t cached = stat_of(group / "memory.stat", "inactive_file");
  return std::max<std::int64_t>(0, std::stoll(limit) - current + cached);
}

std::int64_t left_in_cgroups() {
  std::ifstream in("/proc/self/cgroup");
  std::int64_t least = unlimited;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;
    fs::path below = fs::path(line.substr(4)).lexically_normal();
    const fs::path root = "/sys/fs/cgroup";
    for (;; below = below.parent_path()) {  // every group above limits too
      least = std::min(least, left_in(root / below));
      if (below.empty() || below == below.parent_path()) break;
    }
  }
  return least;
}

std::int64_t left_of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const std::int64_t used = kilobytes_of("/proc/self/status", "VmSize", 0);
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - used);
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

std::int64_t available_memory() {
  const std::int64_t machine = kilobytes_of("/proc/meminfo", "MemAvailable", unlimited);
  return std::min({machine, left_in_cgroups(), left_of_address_space()});
}

std::int64_t total_memory() { return kilobytes_of("/proc/meminfo", "MemTotal", 0); }

}  // namespace quern
