// The file state.json of a checkpoint: what the trainer needs beside weights and moments.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quern/train/loaded_checkpoint.hpp"

namespace quern {

/// How far a training run has come.
struct TrainProgress {
  std::int64_t step = 0, tokens = 0, evaluated = -1;
  std::optional<double> best_loss;
  std::int64_t best_step = 0;
  std::int64_t skipped = 0;         // positions in the order of batches that rollbacks have left out
  std::int64_t skips_in_a_row = 0;  // steps that were not applied, up to this one
  std::int64_t bad_step = 0;        // the latest step that made the run go back …
  std::int64_t rollbacks = 0;       // … how often, without passing it
};

struct CheckpointState {
  TrainProgress progress;
  std::vector<double> losses, gradient_norms;  // the latest, oldest first; for spikes
  std::uint64_t seed = 0;
  std::string corpus, tokenizer;        // fingerprints
  std::optional<std::string> isa;       // older programs wrote neither …
  std::optional<std::int64_t> threads;  // … nor this
  std::int64_t metrics_bytes = 0;       // where the run's metrics ended

  nlohmann::json to_json() const;
};

/// The state of a checkpoint. Throws Error(file), naming the field, for one that is missing, of another type,
/// or beyond what a run can come to: a right checksum does not say who wrote it.
CheckpointState state_of(const LoadedCheckpoint& checkpoint);
/// The same of what the file at `path` holds, in a checkpoint of `step`.
CheckpointState state_of(const nlohmann::json& state, std::int64_t step, const std::filesystem::path& path);

}  // namespace quern
