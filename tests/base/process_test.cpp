#include "quern/base/process.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "catch.hpp"

using namespace quern;

TEST_CASE("resident memory grows with what is touched, and its peak stays") {
  const std::int64_t before = resident_bytes();
  REQUIRE(before > 0);
  constexpr std::size_t bytes = std::size_t{64} << 20;
  // From the kernel itself: an allocator may keep what is freed.
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(block != MAP_FAILED);
  std::memset(block, 'x', bytes);
  const std::int64_t during = resident_bytes();
  ::munmap(block, bytes);
  CHECK(during - before > std::int64_t{bytes} * 9 / 10);
  CHECK(during - before < std::int64_t{bytes} * 11 / 10);
  CHECK(peak_resident_bytes() >= before + std::int64_t{bytes} * 9 / 10);
  CHECK(resident_bytes() < before + std::int64_t{bytes} / 2);
}

TEST_CASE("the process grows older by the steady clock") {
  const double before = process_age_seconds();
  CHECK(before >= 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const double passed = process_age_seconds() - before;
  CHECK(passed > 0.03);  // the kernel counts hundredths
  CHECK(passed < 30);
}

TEST_CASE("memory: what is available is part of the machine's, and an address-space limit is seen") {
  CHECK(available_memory() > 0);
  CHECK(available_memory() <= total_memory());
  const pid_t child = ::fork();
  if (child == 0) {
    std::int64_t mapped = 0;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmSize:")) mapped = std::stoll(line.substr(7)) * 1024;
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    constexpr std::int64_t room = std::int64_t{64} << 20;
    limit.rlim_cur = static_cast<rlim_t>(mapped + room);
    setrlimit(RLIMIT_AS, &limit);
    const std::int64_t left = available_memory();
    ::_exit(mapped > 0 && left > 0 && left <= room ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
}
