// What a person sees on stderr while a model trains. On a terminal one progress line is redrawn in place
// under the lines that stay (start, evaluations, checkpoints, notes, end):
//   step 1200/5000 24% | loss 1.873 (ema 1.90) | val 1.95 | lr 5.7e-4 | gnorm .81 | 41.2k tok/s | 512 ms/step
//   | RSS 1.1 GiB | ETA 32:10
// Elsewhere the same fields come as plain lines, one every log_interval steps. All durations are of a steady
// clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "quern/watch/events.hpp"
#include "quern/watch/terminal.hpp"

namespace quern {

struct ConsoleOptions {
  Terminal terminal;                       // where to write and what it can show
  std::int64_t log_interval = 10;          // steps between plain lines, at least 1
  bool quiet = false;                      // warnings only
  std::function<double()> clock;           // seconds; empty: std::chrono::steady_clock
  std::function<std::int64_t()> resident;  // bytes in memory; empty: resident_bytes()
  std::function<int()> width;  // columns now, asked for at each redraw; empty: terminal_width(terminal.fd)
};

/// Exponential moving average with bias correction; values that are not finite do not enter.
class Ema {
 public:
  explicit Ema(double weight) : weight_(weight) {}
  void add(double value);
  /// Nothing before the first finite value.
  std::optional<double> value() const;

 private:
  double weight_, mean_ = 0, missing_ = 1;
};

/// What a recurring pause (evaluation, checkpoint) costs a step on average: the time of all pauses after the
/// first one over the steps since it. 0 until two are known.
class Amortised {
 public:
  void add(std::int64_t step, double seconds);
  double seconds_per_step() const;

 private:
  std::optional<std::int64_t> first_;
  std::int64_t last_ = 0;
  double seconds_ = 0;
};

class Console final : public Observer {
 public:
  explicit Console(ConsoleOptions options);
  /// Removes the progress line and waits until everything is shown.
  ~Console() override;

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
  void describe(const StartEvent& start);
  /// The progress line, as much of it as a terminal has room for.
  std::string progress(const StepEvent& step) const;
  double seconds_left(const StepEvent& step) const;
  void say(const std::string& line);
  void redraw(const StepEvent& step);
  void erase_progress();
  void write(std::string_view text);
  void flush(bool wait);

  ConsoleOptions options_;
  StartEvent start_;
  Ema loss_{0.98}, step_ms_{0.95}, step_tokens_{0.95};
  Amortised evaluations_, checkpoints_;
  std::optional<double> val_;
  std::int64_t first_step_ = 0;  // of this process
  std::optional<StepEvent> last_step_;
  std::optional<double> last_draw_;  // when the progress line was drawn
  bool shown_ = false;               // the progress line is on the screen
  bool broken_ = false;              // nobody reads any more
  std::string pending_;              // not yet taken by the other end
  std::size_t dropped_ = 0;          // lines that found pending_ full
};

}  // namespace quern
