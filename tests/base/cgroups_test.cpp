// What the kernel tells of cgroups, from files of a test's own.
#include "base/cgroups.hpp"

#include <filesystem>
#include <limits>

#include "base/temporary_directory.hpp"
#include "catch.hpp"

namespace quern::test {
namespace {

constexpr int no_quota = std::numeric_limits<int>::max();
constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The files of a machine.
struct Machine {
  TemporaryDirectory directory;

  /// `groups` is what /proc/self/cgroup holds.
  explicit Machine(const std::string& groups) { file("proc/self/cgroup", groups); }

  void file(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((directory / path).parent_path());
    put(directory / path, content);
  }
  void group(const std::string& path, const std::string& content) const {
    file("sys/fs/cgroup/" + path, content);
  }
  int cores() const { return cores_in_cgroups(directory.path().string()); }
  std::int64_t memory() const { return memory_left_in_cgroups(directory.path().string()); }
};

TEST_CASE("version 2: a quota in the group of a service, and the least of those above") {
  const Machine machine("0::/system.slice/train.service\n");
  CHECK(machine.cores() == no_quota);
  machine.group("system.slice/train.service/cpu.max", "max 100000\n");
  CHECK(machine.cores() == no_quota);
  machine.group("system.slice/train.service/cpu.max", "400000 100000\n");
  CHECK(machine.cores() == 4);
  machine.group("system.slice/cpu.max", "150000 50000\n");
  CHECK(machine.cores() == 3);
  machine.group("cpu.max", "150000 100000\n");  // a namespace's own root
  CHECK(machine.cores() == 2);
  machine.group("system.slice/train.service/cpu.max", "1000 100000\n");
  CHECK(machine.cores() == 1);
  machine.group("system.slice/other.service/cpu.max", "1 100000\n");
  CHECK(machine.cores() == 1);
}

TEST_CASE("version 2: the root of a namespace") {
  const Machine machine("0::/\n");
  machine.group("cpu.max", "200000 100000\n");
  machine.group("memory.max", "1000\n");
  machine.group("memory.current", "300\n");
  CHECK(machine.cores() == 2);
  CHECK(machine.memory() == 700);
}

TEST_CASE("version 1: a quota and its period, and the least of those above") {
  const Machine machine(
      "5:cpuset:/pinned\n4:cpu,cpuacct:/docker/4f\n3:memory:/docker/4f\n1:name=systemd:/docker\n");
  CHECK(machine.cores() == no_quota);
  machine.group("cpu/docker/4f/cpu.cfs_quota_us", "-1\n");
  machine.group("cpu/docker/4f/cpu.cfs_period_us", "100000\n");
  CHECK(machine.cores() == no_quota);
  machine.group("cpu/docker/4f/cpu.cfs_quota_us", "350000\n");
  CHECK(machine.cores() == 4);
  machine.group("cpu/docker/cpu.cfs_quota_us", "300000\n");
  CHECK(machine.cores() == 4);  // whose period is missing
  machine.group("cpu/docker/cpu.cfs_period_us", "100000\n");
  CHECK(machine.cores() == 3);
  machine.group("cpu/cpu.cfs_quota_us", "50000\n");
  machine.group("cpu/cpu.cfs_period_us", "25000\n");
  CHECK(machine.cores() == 2);
  machine.group("cpuset/pinned/cpu.cfs_quota_us", "1\n");
  machine.group("cpuset/pinned/cpu.cfs_period_us", "1\n");
  CHECK(machine.cores() == 2);
}

TEST_CASE("both versions at once: each with its own controllers") {
  const Machine machine("2:cpu:/job\n0::/job\n");
  machine.group("cpu/job/cpu.cfs_quota_us", "500000\n");
  machine.group("cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK(machine.cores() == 5);
  machine.group("job/memory.max", "4096\n");
  machine.group("job/memory.current", "96\n");
  CHECK(machine.memory() == 4000);
}

TEST_CASE("memory: the least of limit less use, cached pages free") {
  const Machine two("0::/a/b\n");
  CHECK(two.memory() == unlimited);
  two.group("a/b/memory.max", "max\n");
  two.group("a/b/memory.current", "10\n");
  CHECK(two.memory() == unlimited);
  two.group("a/memory.max", "1000\n");
  CHECK(two.memory() == unlimited);  // whose use is missing
  two.group("a/memory.current", "600\n");
  two.group("a/memory.stat", "active_file 7\ninactive_file 50\n");
  CHECK(two.memory() == 450);
  two.group("a/b/memory.max", "5\n");
  CHECK(two.memory() == 0);

  const Machine one("7:memory:/a\n");
  one.group("memory/a/memory.limit_in_bytes", "1000\n");
  one.group("memory/a/memory.usage_in_bytes", "600\n");
  one.group("memory/a/memory.stat", "inactive_file 3\ntotal_inactive_file 50\n");
  CHECK(one.memory() == 450);
  one.group("memory/memory.limit_in_bytes", "100\n");
  one.group("memory/memory.usage_in_bytes", "60\n");
  CHECK(one.memory() == 40);
}

TEST_CASE("no files, and files of anything, limit nothing") {
  const TemporaryDirectory empty;
  CHECK(cores_in_cgroups(empty.path().string()) == no_quota);
  CHECK(memory_left_in_cgroups(empty.path().string()) == unlimited);
  for (const char* groups : {"", "\n", "0:/a\n", ":::\n", "no colon", "0::a\n", "0::/../../a\n"}) {
    const Machine machine(groups);
    CAPTURE(groups);
    CHECK(machine.cores() == no_quota);
    CHECK(machine.memory() == unlimited);
  }
  for (const char* quota :
       {"", "\n", "max", "50000\n", "50000 0\n", "0 100000\n", "-5 100000\n", "5 -100000\n", "nan 1\n",
        "inf 1\n", "1e999 1\n", "1 1e-999\n", "a b\n", "1e300 1\n"}) {
    const Machine machine("0::/a\n");
    machine.group("a/cpu.max", quota);
    machine.group("a/memory.max", "lots\n");
    machine.group("a/memory.current", "few\n");
    CAPTURE(quota);
    CHECK(machine.cores() == no_quota);
    CHECK(machine.memory() == unlimited);
  }
}

}  // namespace
}  // namespace quern::test
