// What the control groups of this process leave it: those of version 1 and of version 2, and all above its
// own.
#pragma once

#include <cstdint>
#include <string>

namespace quern {

/// Bytes of memory that the groups leave: the least of limit less use, where cached file pages count as free;
/// the largest number when none has a limit. `root` stands before /proc/self/cgroup and /sys/fs/cgroup.
std::int64_t memory_left_in_cgroups(const std::string& root = "");

/// Cores that the groups' CPU quotas amount to, the least of them, rounded up; the largest number when there
/// is none. `root` as above.
int cores_in_cgroups(const std::string& root = "");

}  // namespace quern
