#include "quern/base/cpu.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cgroups.hpp"
#include "quern/base/check.hpp"

namespace quern {

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::v2: return "v2";
    case Isa::v3: return "v3";
    case Isa::v4: return "v4";
    case Isa::amx: return "amx";
  }
  return "unknown";
}

#if defined(__x86_64__)
namespace {

/// Whether the processor multiplies tiles of bf16 and Linux lets this process use their registers, whose 8
/// KiB a process has to ask for.
bool has_amx() {
  constexpr unsigned tile_and_bf16 = 1U << 24 | 1U << 22;
  constexpr int request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & tile_and_bf16) == tile_and_bf16 &&
         syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace
#endif

Isa detected_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return has_amx() ? Isa::amx : Isa::v4;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::v3;
  if (__builtin_cpu_supports("x86-64-v2")) return Isa::v2;
#endif
  return Isa::portable;
}

namespace {

Isa chosen_isa() {
  const char* forced = std::getenv("QUERN_ISA");
  if (forced == nullptr || *forced == '\0') return detected_isa();
  for (const Isa level : {Isa::portable, Isa::v2, Isa::v3, Isa::v4, Isa::amx}) {
    if (name(level) != forced) continue;
    if (level > detected_isa())
      throw Error(ErrorKind::config, "QUERN_ISA: this processor has no level " + std::string(forced),
                  "the highest it has is " + std::string(name(detected_isa())));
    return level;
  }
  throw Error(ErrorKind::config, "QUERN_ISA: unknown level \"" + std::string(forced) + "\"",
              "use one of portable, v2, v3, v4, amx");
}

}  // namespace

Isa isa() {
  static const Isa chosen = chosen_isa();
  return chosen;
}

std::string_view cpu_name() {
  static const std::string found = [] {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
      if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
    return std::string("unknown");
  }();
  return found;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(cores, cores_in_cgroups()));
}

}  // namespace quern
