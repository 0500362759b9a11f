// What a run will take, before it starts: the model is built with no memory behind it and its passes are
// planned (see Workspace), so that no formula of any model stands here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/base/profile.hpp"
#include "quern/train/config.hpp"

namespace quern {

/// Something counted, and what it belongs to: "decoder.blocks.3".
struct Share {
  std::string name;
  std::int64_t amount = 0;
};

/// Bytes at the peak of training.
struct MemoryEstimate {
  std::int64_t weights = 0, gradients = 0, moments = 0;  // weights: with their bf16 shadow
  std::int64_t activations = 0;                          // what backward needs of forward
  std::vector<Share> activations_by_layer;
  std::int64_t workspace = 0;  // further buffers at the peak, those of evaluation and samples among them
  std::int64_t library = 0;    // code and buffers of oneDNN and the threads' own, as far as known
  std::int64_t program = 0;    // what this process takes already, the corpus in it
  std::int64_t reserved = 0;   // address space beyond all these that is never touched

  /// What is yet to be taken.
  std::int64_t to_come() const { return weights + gradients + moments + activations + workspace + library; }
  std::int64_t total() const { return to_come() + program; }
};

/// An operation, and how often it is called at this cost.
struct PlannedCall {
  Phase phase;
  std::string name;
  Cost cost;
  double times = 1;
};

struct RunEstimate {
  std::int64_t parameters = 0;
  std::vector<Share> parameters_by_part;
  std::int64_t tokens_per_step = 0, steps = 0;
  std::vector<PlannedCall> step;        // over its micro-batches
  std::vector<PlannedCall> evaluation;  // one, over its batches
  double evaluations = 0;               // of the run
  MemoryEstimate memory;

  /// Arithmetic for a token of training: forward and backward.
  double flops_per_token() const;
};

/// Plans the steps of `config`, whose vocabulary is stated, and evaluations over so many windows (0: there
/// are none), for the threads that thread_count() says. With run.batch_tokens a micro-batch is taken to have
/// as many rows of full length as these make, beside which the pool's spare is held. Throws Error
/// memory for what is beyond all machines (2^50 numbers in one tensor).
RunEstimate estimate(const Config& config, std::int64_t evaluation_windows);

/// Throws Error memory, with the numbers and the largest run.batch_size or run.batch_tokens that fits, when a
/// run of `config` does not fit into what the machine, the cgroup and the address-space limit leave this
/// process.
void require_memory(const Config& config, std::int64_t evaluation_windows);

}  // namespace quern
