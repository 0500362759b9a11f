// What `quern bench` measures: training steps of named works, decoding, and single kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/train/config.hpp"

namespace quern::cli {

/// One work's figures, with the fields that quern bench --json prints.
struct WorkResult {
  std::string work, precision;
  int threads = 1;
  double ms_min = 0, ms_median = 0;  // of a step (of a token for `decode`), after warm-up
  double tokens_per_second = 0;      // at the median
  double seconds_to_first_step = 0;  // from the start of the process to the end of the first step
  double peak_rss_mb = 0;
  double loss = 0;  // of the last step; 0 for `decode`
};

/// The names of the works, in order.
std::vector<std::string> work_names();

/// Whether there is such a work.
bool is_work(const std::string& name);

/// Runs a work in this process. Its peak memory is the process's, so a process runs one work.
/// `steps` 0 means the work's own number.
WorkResult run_work(const std::string& name, Precision precision, std::int64_t steps);

/// What this machine reaches with the threads in use: f32 arithmetic in a product of 2048x1536x768, and
/// memory traffic in a copy that no cache holds.
struct MachineRates {
  double gflops = 0, gigabytes_per_second = 0;
};
MachineRates machine_rates();

/// The table of `quern bench --kernels`: every kernel at sizes of the works, in GB/s or GFLOP/s and as a
/// share of what this machine was measured to reach.
std::string kernel_table();

}  // namespace quern::cli
