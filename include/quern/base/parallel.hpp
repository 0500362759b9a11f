// Loops over the cores. What a chunk is depends on the problem alone, never on the number of threads, and
// partial results are added in chunk order: the same bits for any thread count.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "quern/base/profile.hpp"

namespace quern {

/// How many threads a parallel loop may use.
inline int thread_count() { return omp_get_max_threads(); }

/// Sets the thread count of this process; n >= 1.
inline void set_thread_count(int n) { omp_set_num_threads(n); }

/// The loop below under a profile: what every thread but the calling one did is a slice of its own.
template <class F>
void profiled_parallel_for(Profile& profile, std::int64_t chunks, std::int64_t n, std::int64_t grain, F& f) {
#pragma omp parallel
  {
    const double begin = profile.now();
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t i = 0; i < chunks; ++i) f(i * grain, std::min(n, (i + 1) * grain));
    if (const int thread = omp_get_thread_num(); thread != 0)
      profile.add({"chunks", {}, Phase::thread, thread, begin, profile.now() - begin, {}});
  }
}

/// f(begin, end) over chunks of at most `grain` of [0, n), in parallel. Runs on the calling thread when one
/// chunk is all there is.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  const std::int64_t chunks = (n + grain - 1) / grain;
  if (chunks <= 1 || thread_count() == 1) {
    for (std::int64_t i = 0; i < chunks; ++i) f(i * grain, std::min(n, (i + 1) * grain));
    return;
  }
  if (Profile* profile = Profile::active(); profile != nullptr) [[unlikely]]
    return profiled_parallel_for(*profile, chunks, n, grain, f);
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < chunks; ++i) f(i * grain, std::min(n, (i + 1) * grain));
}

}  // namespace quern
