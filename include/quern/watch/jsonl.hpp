// metrics.jsonl, the truth about a run: one JSON object a line, written as training goes and read by
// everything that draws a run. Numbers are printed in the shortest form that reads back to the same double;
// what is not finite has no JSON form, is written as null and read as NaN; so is what a step without a target
// has not, its loss and its gradient's norm ("tokens_per_second" is 0).
//
//   {"event":"start","time":…,"parameters":…,"train_tokens":…,"val_tokens":…,…}
//   {"event":"step","time":…,"step":20,"tokens":15360,"loss":2.31,"lr":0.001,"grad_norm":0.8,"ms":31.2,
//    "tokens_per_second":24615,"update_ratio":0.004,"data_ms":…,"forward_ms":…,"backward_ms":…,
//    "optimizer_ms":…,"rss":…}                                    and "smoothed_loss" when smoothing is on
//   {"event":"eval","time":…,"step":20,"split":"val","loss":2.28,"tokens":15360,"seconds":0.4}
//   {"event":"checkpoint","time":…,"step":20,"path":"ckpt/step-000000020","seconds":0.05}
//   {"event":"sample","time":…,"step":20,"prompt":"One","text":" day"}
//   {"event":"anomaly","time":…,"step":20,"kind":"spike","action":"none","loss":9.1,"grad_norm":80,
//    "z_score":7.2,"text":…}                                      and "after" where action is "rollback"
//   {"event":"warning","time":…,"step":20,"text":…}               a note that is one
//   {"event":"resume","time":…,"step":20,"checkpoint":"ckpt/step-000000020",…}
//   {"event":"end","time":…,"step":40,"status":"completed","seconds":12.5,…}
//
// "time" is the UTC clock in seconds since 1970; durations come from a steady clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "quern/watch/events.hpp"
#include "quern/watch/metrics_cut.hpp"

namespace quern {

/// Turns each event into its line.
class JsonlEvents : public Observer {
 public:
  void on_start(const StartEvent& event) override;
  void on_resume(const ResumeEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_sample(const SampleEvent& event) override;
  void on_anomaly(const AnomalyEvent& event) override;
  void on_note(const NoteEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  virtual void append(std::string_view line) = 0;  // with its newline
};

/// Writes the lines to a descriptor as they come, for programs that follow a run through a pipe. When nobody
/// reads any more it falls silent; any other failure throws Error io.
class JsonlStream final : public JsonlEvents {
 public:
  explicit JsonlStream(int fd);

 private:
  void append(std::string_view line) override;

  int fd_;
  bool gone_ = false;
};

/// Throws Error(file) when the metrics are missing or shorter than the `offset` that a checkpoint recorded,
/// or no line ends there; io when the system refuses. 0 stands for a new run, which may have none.
void check_metrics(Files& files, const std::filesystem::path& path, std::int64_t offset);

/// Writes metrics.jsonl. An event never throws: a line that cannot be written now (a full disk) is kept and
/// written before the next one, so the file is always a beginning of what was said; sync() is where trouble
/// is reported.
class JsonlWriter final : public JsonlEvents {
 public:
  /// Opens `path`, creating it if need be, and cuts it to `offset` bytes: 0 for a new run, at resume the
  /// offset that the checkpoint recorded. Throws what check_metrics throws.
  JsonlWriter(Files& files, const std::filesystem::path& path, std::int64_t offset = 0);

  /// Makes everything said so far durable (fsync) and returns the file's size in bytes, for the checkpoint to
  /// record. Throws Error io, naming the path and the system's reason, when lines are still unwritten or the
  /// fsync fails, and what check() throws.
  std::int64_t sync();

  /// Throws Error io when the path names another file by now, or the file holds more or less than was written
  /// to it: what a checkpoint recorded of it would lead a resume astray. Throws what check_place() throws.
  void check();
  /// Throws what the guard of the place throws (see Files::guard): that it is not the run's any more. From
  /// the first line for which that was so nothing is written.
  void check_place();

  /// Where a rollback to a checkpoint of `step` cuts, which recorded `offset` bytes: see metrics_cut. An
  /// offset of before a resume that found other metrics than its checkpoint recorded is none of this file.
  MetricsCut cut_of(std::int64_t offset, std::int64_t step) const {
    return metrics_cut(files_, file_.path(), offset, step);
  }
  /// Goes back to `offset`, at most offset(): what was said since then never was. Throws what check() throws.
  void cut(std::int64_t offset);

  /// Bytes that sync() would return: written or still to be written.
  std::int64_t offset() const { return offset_; }

 private:
  void append(std::string_view line) override;
  void write_pending();  // throws what File::write throws

  Files& files_;
  File file_;
  std::string pending_;        // said, not yet in the file
  std::int64_t offset_ = 0;    // bytes of the file and of pending_
  std::optional<Error> lost_;  // the place is somebody else's
};

}  // namespace quern
