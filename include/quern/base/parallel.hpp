// Loops over the cores. What a chunk is depends on the problem alone, never on the number of threads, and
// partial results are added in chunk order: the same bits for any thread count.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "quern/base/profile.hpp"

namespace quern {

/// How many threads a parallel loop may use.
inline int thread_count() { return omp_get_max_threads(); }

/// Sets the thread count of this process; n >= 1. Throws Error(memory) where the system starts no so many:
/// OpenMP would end the program.
void set_thread_count(int n);

/// f(i) for i in [0, chunks), each by the first thread that is free. Only as many threads take part as there
/// are chunks: scratch for min(chunks, thread_count()) threads is enough. The first exception is thrown again
/// here.
template <class F>
void for_each_chunk(std::int64_t chunks, const F& f) {
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr failed;
  Profile* const profile = Profile::active();
#pragma omp parallel
  if (const int thread = omp_get_thread_num(); thread < chunks) {
    const double begin = profile != nullptr ? profile->now() : 0;
    try {
      for (std::int64_t i = next++; i < chunks; i = next++) f(i);
    } catch (...) {
      next = chunks;
#pragma omp critical
      failed = std::current_exception();
    }
    if (profile != nullptr && thread != 0)  // what the calling thread did has a slice already
      profile->add({"chunks", {}, Phase::thread, thread, begin, profile->now() - begin, {}});
  }
  if (failed) std::rethrow_exception(failed);
}

/// f(begin, end) over chunks of at most `grain` of [0, n), in parallel. Runs on the calling thread when one
/// chunk is all there is.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  const std::int64_t chunks = (n + grain - 1) / grain;
  const auto chunk = [&](std::int64_t i) { f(i * grain, std::min(n, (i + 1) * grain)); };
  if (chunks > 1 && thread_count() > 1) return for_each_chunk(chunks, chunk);
  for (std::int64_t i = 0; i < chunks; ++i) chunk(i);
}

}  // namespace quern
