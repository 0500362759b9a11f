// This process and the memory it lives in, as the kernel tells them.
#pragma once

#include <cstdint>

namespace quern {

/// Seconds since this process was started.
double process_age_seconds();

/// Bytes of this process in physical memory now, and the most there ever were. 0 when the kernel does not
/// say.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

/// Gives free memory that this process holds back to the kernel, where the C library can.
void release_free_memory();

/// Bytes that this process could still use without swapping: the least of what the machine has available
/// (MemAvailable), what its cgroups leave (memory.max less what is in use and cannot be given back) and what
/// the address-space limit leaves (RLIMIT_AS).
std::int64_t available_memory();

/// Bytes that the address-space limit (RLIMIT_AS) leaves; the largest number when there is none.
std::int64_t address_space_left();

/// Bytes of the machine's memory.
std::int64_t total_memory();

}  // namespace quern
