// The trace of the steps that run.profile_steps names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "quern/base/profile.hpp"
#include "quern/train/config.hpp"
#include "quern/watch/trace.hpp"

namespace quern {

/// Records from the begin of the first step to the begin of the one after the last: evaluations and
/// checkpoints between them are in it. Writes while it records, so that a run which dies leaves its trace.
class Tracer {
 public:
  Tracer(Files& files, const RunConfig& config, std::filesystem::path path);

  /// Called before each step. What it has to say to the user, if anything. Never throws for a file that
  /// cannot be written: the trace then ends.
  std::string before_step(std::int64_t step);
  /// Ends the trace, at the end of a run.
  std::string finish();

 private:
  template <class F>
  std::string attempt(F&& f);
  void write();

  Files& files_;
  std::int64_t first_, last_;  // steps; 0, -1: none
  std::filesystem::path path_;
  Profile profile_;
  std::optional<TraceWriter> writer_;
};

}  // namespace quern
