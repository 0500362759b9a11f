#include "quern/base/arena.hpp"

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

TEST_CASE("pool: releasing twice is a bug") {
  Pool pool;
  void* a = pool.allocate(64);
  pool.release(a);
  CHECK_THROWS_AS(pool.release(a), Bug);
}
