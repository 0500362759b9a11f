#include "quern/base/parallel.hpp"

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "quern/base/check.hpp"

namespace quern {
namespace {

/// Starts n threads that live at the same time, and ends them. Throws Error(memory) where that fails.
void start_threads(int n) {
  std::latch all_tried(1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(n));
  std::string refused;
  try {
    for (int i = 0; i < n; ++i) threads.emplace_back([&] { all_tried.wait(); });
  } catch (const std::system_error& error) {
    refused = error.code().message();
  }
  all_tried.count_down();
  for (std::thread& thread : threads) thread.join();
  if (refused.empty()) return;
  throw Error(ErrorKind::memory,
              "the system starts " + std::to_string(threads.size() + 1) + " of " + std::to_string(n + 1) +
                  " threads: " + refused,
              "ask for fewer (run.threads, QUERN_THREADS or OMP_NUM_THREADS), or raise the limit (ulimit -u, "
              "ulimit -v, or pids.max of the control group)");
}

}  // namespace

void set_thread_count(int n) {
  static int startable = 1;
  if (n > startable) {
    start_threads(n - 1);
    startable = n;
  }
  omp_set_num_threads(n);
}

}  // namespace quern
