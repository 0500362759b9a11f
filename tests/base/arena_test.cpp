#include "quern/base/arena.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;

TEST_CASE("arena: aligned, disjoint, and back to a mark without giving chunks away") {
  Arena arena;
  const auto mark = arena.mark();
  char* a = static_cast<char*>(arena.allocate(100));
  char* b = static_cast<char*>(arena.allocate(3 << 20));  // larger than a chunk
  char* c = static_cast<char*>(arena.allocate(1));
  for (char* p : {a, b, c}) CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
  std::memset(a, 1, 100);
  std::memset(b, 2, 3 << 20);
  *c = 3;
  CHECK(a[99] == 1);
  arena.reset(mark);
  CHECK(arena.allocate(100) == a);
  CHECK(arena.allocate(3 << 20) == b);
}

TEST_CASE("pool: a freed block serves the next request of its size, or down to half of it") {
  Pool pool;
  void* a = pool.allocate(1 << 20);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
  CHECK(pool.bytes_in_use() == 1 << 20);
  pool.release(a);
  CHECK(pool.bytes_in_use() == 0);
  CHECK(pool.allocate(1 << 20) == a);
  pool.release(a);
  CHECK(pool.allocate(1 << 19) == a);
  pool.release(a);
  void* small = pool.allocate((1 << 19) - 64);
  CHECK(small != a);
  CHECK(pool.bytes_held() == (1 << 20) + (1 << 19) - 64);
  pool.release(small);
}

TEST_CASE(
    "pool: requests that always differ hold at most an eighth more than was in use, when that is wished") {
  for (const bool gives_back : {false, true}) {
    Pool pool;
    if (gives_back) pool.give_back_spare();
    std::size_t most = 0, over = 0;
    for (std::size_t step = 0; step < 100; ++step) {
      // Two at once, each size a power of two, which a block of another one rarely serves.
      const std::size_t bytes = std::size_t{1} << (10 + step * 7 % 13);
      char* blocks[2] = {};
      for (char*& block : blocks) {
        block = static_cast<char*>(pool.allocate(bytes));
        std::memset(block, static_cast<int>(step + 1), bytes);
        most = std::max(most, pool.bytes_in_use());
        over = std::max(over, pool.bytes_held() * 8 / most);  // eighths
      }
      CHECK(blocks[0][bytes - 1] == blocks[1][0]);
      for (char* block : blocks) pool.release(block);
    }
    CHECK((over <= 9) == gives_back);
    CHECK(pool.bytes_in_use() == 0);
  }
}

TEST_CASE("pool: releasing twice is a bug") {
  Pool pool;
  void* a = pool.allocate(64);
  pool.release(a);
  CHECK_THROWS_AS(pool.release(a), Bug);
}
