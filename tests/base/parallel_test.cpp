#include "quern/base/parallel.hpp"

#include <vector>

#include "catch.hpp"

using namespace quern;

TEST_CASE("parallel_for visits every index once, in chunks that do not depend on the threads") {
  const int before = thread_count();
  for (const int threads : {1, 2, 3})
    for (const std::int64_t n : {0, 1, 7, 64, 65, 1000}) {
      set_thread_count(threads);
      std::vector<int> visits(static_cast<std::size_t>(n));
      std::vector<std::int64_t> begins(static_cast<std::size_t>(n), -1);
      parallel_for(n, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          visits[static_cast<std::size_t>(i)]++;
          begins[static_cast<std::size_t>(i)] = begin;
        }
      });
      for (std::int64_t i = 0; i < n; ++i) {
        CHECK(visits[static_cast<std::size_t>(i)] == 1);
        CHECK(begins[static_cast<std::size_t>(i)] == i / 8 * 8);
      }
    }
  set_thread_count(before);
}
