// Which instruction set the kernels run on. Each kernel of ours is compiled once per level and chosen once at
// start.
#pragma once

#include <string_view>

namespace quern {

/// The x86-64 psABI's levels; amx is v4 with AMX for bf16; `portable` is what other architectures build.
enum class Isa { portable, v2, v3, v4, amx };

std::string_view name(Isa isa);

/// The highest level that this processor has; for amx the kernel must have granted this process the
/// registers.
Isa detected_isa();

/// The level in use: QUERN_ISA (portable, v2, v3, v4, amx) when set, else detected_isa(). Throws
/// Error(config) for a name that is unknown or a level that the processor lacks.
Isa isa();

/// The processor's own name, as the kernel tells it; "unknown" when it does not.
std::string_view cpu_name();

/// Cores that this process may use: its affinity mask and the CPU quotas of its cgroups, of either version
/// and of all above its own; of a part of a core counts the whole.
int usable_cores();

}  // namespace quern
