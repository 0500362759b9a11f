// Event files that TensorBoard shows: scalars, samples as text, distributions, hyperparameters.
//
// A file is a row of records: length (uint64, little endian), masked CRC-32C of its bytes, an Event message
// of tensorflow/core/util/event.proto, masked CRC-32C of that. masked(c) = rotate_right(c, 15) + 0xa282ead8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/watch/events.hpp"

namespace quern {

/// A setting of a run, for the table of hyperparameters.
struct Hyperparameter {
  std::string name;
  std::variant<bool, double, std::string> value;
};

/// Tags: train/{loss,smoothed_loss,learning_rate,gradient_norm,update_ratio,tokens_per_second,
/// milliseconds}, val/{loss,<metric>}, memory/resident_bytes, samples, weights/<tensor>, gradients/<tensor>.
/// What is not finite is written as it is. Records are kept and written at evaluations, samples and
/// checkpoints, and every few seconds.
class TensorBoard final : public Observer {
 public:
  /// Starts a file in `directory`, made if need be, whose name sorts behind those that are there, whatever
  /// the clock says: a resumed run goes on in a new file.
  TensorBoard(Files& files, const std::filesystem::path& directory, std::vector<Hyperparameter> settings);
  ~TensorBoard() override;

  void on_start(const StartEvent& event) override;
  void on_resume(const ResumeEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_sample(const SampleEvent& event) override;
  void on_distribution(const DistributionEvent& event) override;
  void on_anomaly(const AnomalyEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  void scalar(const std::string& tag, double value, std::int64_t step);
  void text(const std::string& tag, const std::string& value, std::int64_t step);
  void settings();
  void restart_after(std::int64_t step);
  void write(const std::string& event);  // one record
  void flush();

  File file_;
  std::vector<Hyperparameter> settings_;
  std::string pending_;
  double flushed_ = 0;  // a steady clock's seconds
};

}  // namespace quern
