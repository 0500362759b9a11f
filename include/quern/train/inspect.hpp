// What a path holds: a run, a checkpoint, or a file of one of the kinds that a run reads or writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/io/tensor_facts.hpp"

namespace quern {

/// safetensors: a file of that extension. tokenizer: a JSON object whose "type" is one of ours, or a file
/// tokenizer.json that is no JSON at all and so a damaged one. text: every other file.
enum class PathKind { checkpoint, run, safetensors, tokenizer, text };

/// ErrorKind::file when there is nothing at `path`, when it is a directory that is neither a run nor a
/// checkpoint, or a pipe or device.
PathKind path_kind(Files& files, const std::filesystem::path& path);

/// The tensors of one file of a checkpoint.
struct TensorFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
};

/// A checkpoint that was verified: every file and tensor has the size and checksum of the manifest.
struct CheckpointFacts {
  std::int64_t step = 0;
  std::uint64_t bytes = 0;  // of all its files
  TensorFile model, optim;  // the model's elements are its parameters; a tied matrix stands there once
  std::vector<safetensors::TensorGroup> groups;  // of the model
  nlohmann::json state;                          // an object: what else the trainer needs
  std::optional<double> val_loss;  // of these weights, by the metrics of the run that it lies in
  bool best = false;               // the run's lowest
};

/// Throws what open_checkpoint throws. A run around it whose metrics cannot be read is no fault of the
/// checkpoint's.
CheckpointFacts describe_checkpoint(Files& files, const std::filesystem::path& path);

/// A checkpoint of a run, verified.
struct CheckedCheckpoint {
  std::int64_t step = 0;
  std::string path;         // relative to the run: "ckpt/step-000000020"
  std::uint64_t bytes = 0;  // of its files
  std::string problem;      // what is wrong; empty when intact
};

/// All checkpoints of a run, the newest first; one that is deleted meanwhile is left out.
std::vector<CheckedCheckpoint> check_checkpoints(Files& files, const std::filesystem::path& run);

}  // namespace quern
