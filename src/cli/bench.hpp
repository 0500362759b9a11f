// What `quern bench` measures: training steps of named works, decoding, and single kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/base/fields.hpp"
#include "quern/train/trainer.hpp"
#include "quern/watch/terminal.hpp"

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

/// The config of a training work (not of `decode`), its vocabulary stated.
Config work_config(const std::string& name);

/// Training as `config` says, its vocabulary stated, on random tokens.
class RandomTraining {
 public:
  explicit RandomTraining(const Config& config);
  StepResult step();

 private:
  Config config_;
  TokenStore tokens_;
  Examples examples_;  // of an encoder-decoder
  Model model_;
  Workspace workspace_;
  TrainBatches batches_;
  std::int64_t step_ = 0;
};

/// What this machine reaches with the threads in use.
struct MachineRates {
  double gflops = 0;                      // f32 arithmetic in a product of 2048x1536x768
  double bf16_gflops = 0;                 // the same of bf16, with the conversions of a processor without
  double gigabytes_per_second = 0;        // memory traffic in a copy that no cache holds
  double cache_gigabytes_per_second = 0;  // the same of 2 MB that the caches hold
  double attention_gflops = 0;            // causal attention forward, T 256, D 64
  double attention_backward_gflops = 0;   // its backward
  double call_microseconds = 0;           // what a small product takes beyond its arithmetic

  double of(Type type) const { return type == Type::bf16 ? bf16_gflops : gflops; }

  void fields(FieldList& f) {
    f("gflops", gflops, above(0), "");
    f("bf16_gflops", bf16_gflops, above(0), "");
    f("gigabytes_per_second", gigabytes_per_second, above(0), "");
    f("cache_gigabytes_per_second", cache_gigabytes_per_second, above(0), "");
    f("attention_gflops", attention_gflops, above(0), "");
    f("attention_backward_gflops", attention_backward_gflops, above(0), "");
    f("call_microseconds", call_microseconds, at_least(0), "");
  }
};

/// Measures them, in about two seconds.
MachineRates machine_rates();

/// The rates as measured before with this processor, thread count, level and version, from the user's cache
/// directory ($XDG_CACHE_HOME/quern or ~/.cache/quern); else, or when `again`, measured now and kept there
/// where that can be.
MachineRates known_machine_rates(bool again = false);

/// The step of `config` by operation, as text of 80 columns or as one JSON object with a final newline: the
/// shortest of three steps after two.
std::string step_profile(const Config& config, const Terminal& terminal, bool json);

/// The table of `quern bench --kernels`: every kernel at sizes of the works, in GB/s or GFLOP/s and as a
/// share of what this machine was measured to reach. `type` is that of operands and activations; with bf16
/// the kernels that take f32 alone are left out.
std::string kernel_table(Type type);

}  // namespace quern::cli
