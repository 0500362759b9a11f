// Reads a run back from its metrics.jsonl (the form is in jsonl.hpp).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "quern/watch/events.hpp"

namespace quern {

/// A run as its metrics.jsonl tells it.
struct Metrics {
  std::optional<StartEvent> start;                            // its max_steps is that of the last resume
  double started = std::numeric_limits<double>::quiet_NaN();  // UTC seconds since 1970; NaN: not known
  std::vector<StepEvent> steps;                               // step strictly increasing
  std::vector<EvalEvent> evals;  // step increasing; a split occurs at most once a step
  std::vector<CheckpointEvent> checkpoints;
  std::vector<SampleEvent> samples;
  std::vector<AnomalyEvent> anomalies;
  std::vector<NoteEvent> warnings;
  std::vector<std::int64_t> resumes;  // the steps from which the run went on
  std::optional<EndEvent> end;        // of the last process, unless a resume followed it
};

/// The evaluation of the validation split with the lowest loss, the first of equal ones; null when none has a
/// finite loss.
const EvalEvent* best_evaluation(const Metrics& metrics);

/// Reads metrics.jsonl. A last line without its newline that is not whole JSON is a write in progress or cut
/// short and is left out; events of other names are left out too, so that an older program reads a newer
/// file. Everything else must be right: a line that is not a JSON object, a missing or mistyped field, a step
/// that is not above the one before (resuming cuts the file, so that each step stands once), more than 64
/// splits evaluated in one step throw Error file at path:line; so do a file above 4 GiB and one that is
/// missing. Error io when the system refuses to read.
Metrics read_metrics(const std::string& path);

/// The bytes of a metrics.jsonl that a run which goes on from `step` may keep: its whole lines from the first
/// one on, up to one that a run tells after its checkpoint of that step. Throws what read_metrics throws of a
/// line before.
std::int64_t metrics_bytes_up_to(const std::string& path, std::int64_t step);

/// Reads the metrics of `run`: a run's directory, or a metrics.jsonl itself. Throws Error run (exit code 7)
/// when there is nothing at `run` or the directory holds no metrics.jsonl.
Metrics read_run(const std::string& run);

}  // namespace quern
