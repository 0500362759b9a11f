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

#include "cgroups.hpp"

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
  return std::min({machine, memory_left_in_cgroups(), address_space_left()});
}

std::int64_t total_memory() { return kilobytes_of("/proc/meminfo", "MemTotal", 0); }

}  // namespace quern
