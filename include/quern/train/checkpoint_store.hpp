// Checkpoints that survive:
// <run>/ckpt/step-000000020/{model.safetensors,optim.safetensors,state.json,manifest.json}.
//
// A checkpoint is written to ckpt/.tmp-…, every file preallocated, checked and fsynced, the manifest (sizes
// and CRC-32C of every file and tensor, and of itself) last, then the directory; renamed without replacing;
// then ckpt/ is fsynced. The rename is the commit: whatever moment the process dies or the power fails, what
// stands under a name step-… is whole. <run>/latest names the newest one and is a hint only; discovery reads
// the directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/io/safetensors.hpp"
#include "quern/train/loaded_checkpoint.hpp"

namespace quern {

struct CheckpointData {
  std::int64_t step = 0;
  std::vector<safetensors::TensorEntry> model;  // names distinct within each list
  std::vector<safetensors::TensorEntry> optim;
  nlohmann::json
      state;  // whatever else the trainer needs: an object, its numbers finite (JSON has no others)
};

/// The checkpoints of one run directory. One that writes must hold the run's lock.
class CheckpointStore {
 public:
  CheckpointStore(Files& files, std::filesystem::path run_directory);

  /// Deletes what an interrupted save, replacement or pruning left: .tmp-… and .trash-…, in ckpt/ and the
  /// run.
  void clean();

  /// Writes a checkpoint; on return it is durable. One of that step that is intact already stays and nothing
  /// is written; a damaged one is replaced. Returns its path. ErrorKind::io when the system refuses: older
  /// checkpoints are untouched, and of the new one nothing is left (or all of it, when only the hint `latest`
  /// failed).
  std::filesystem::path save(const CheckpointData& data);

  /// Deletes checkpoints older than the newest max(keep, 2) intact ones, except `best`.
  void prune(std::int64_t keep, std::optional<std::int64_t> best);

  /// Deletes checkpoints beyond `step`, which is the latest from here on (so `latest` says even before one is
  /// gone): a resume from an older one makes another future.
  void discard_after(std::int64_t step);

  /// Deletes all checkpoints, and ckpt/ if nothing else is in it.
  void discard_all();

  struct Found {
    std::optional<LoadedCheckpoint> checkpoint;  // empty: there are no checkpoints at all
    std::vector<std::string> warnings;  // one for each newer checkpoint that was passed over, and why
  };
  /// The newest intact checkpoint. When there are some and none is intact: the error of the newest. One that
  /// the system refuses to read is not passed over but ErrorKind::io.
  Found find_latest(CheckpointParts parts = CheckpointParts::all);

  /// Steps of all checkpoints, newest first, verified or not.
  std::vector<std::int64_t> steps() const;
  std::filesystem::path path_of(std::int64_t step) const;

 private:
  bool is_intact(std::int64_t step);
  void write_contents(const std::filesystem::path& directory, const CheckpointData& data);
  void commit(const std::filesystem::path& temporary, std::int64_t step);
  void point_latest_to(std::int64_t step);
  bool latest_is(std::int64_t step) const;
  void delete_steps(const std::vector<std::int64_t>& doomed);
  void remove_leftover(const std::filesystem::path& directory);

  Files& files_;
  std::filesystem::path run_;
  std::filesystem::path directory_;  // run_ / "ckpt"
  std::map<std::int64_t, bool>
      checked_;  // which steps this object has written or verified, and whether intact
};

}  // namespace quern
