#include "quern/base/parallel.hpp"

#include <atomic>
#include <vector>

#include "catch.hpp"
#include "quern/base/check.hpp"

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

TEST_CASE("no more threads take part than there are chunks, so that scratch for each of those is enough") {
  const int before = thread_count();
  set_thread_count(16);
  for (int i = 0; i < 200; ++i) {
    std::atomic<int> last = 0;
    parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
      int seen = last;
      while (seen < omp_get_thread_num() && !last.compare_exchange_weak(seen, omp_get_thread_num())) {
      }
    });
    CHECK(last < 3);
  }
  set_thread_count(before);
}

TEST_CASE("what a chunk throws, on any thread, is thrown to who asked for the loop") {
  const int before = thread_count();
  for (const int threads : {1, 2, 5})
    for (const std::int64_t bad : {0, 1, 99}) {
      set_thread_count(threads);
      CHECK_THROWS_AS(parallel_for(100, 1,
                                   [&](std::int64_t begin, std::int64_t) {
                                     if (begin == bad) throw Error(ErrorKind::config, "this one");
                                   }),
                      Error);
      std::atomic<int> visits = 0;
      parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++visits; });
      CHECK(visits == 100);
    }
  set_thread_count(before);
}
