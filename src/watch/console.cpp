#include "quern/watch/console.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "quern/base/check.hpp"
#include "quern/base/process.hpp"
#include "quern/base/suggest.hpp"
#include "quern/watch/canvas.hpp"
#include "quern/watch/format.hpp"

namespace quern {

namespace {

constexpr double seconds_between_redraws = 0.1;
constexpr std::size_t most_pending = std::size_t{1} << 20;
// A pipe or terminal that poll calls writable takes this much at once (POSIX PIPE_BUF is at least 512).
constexpr std::size_t piece = 512;

// "0.81" as ".81": a narrow line has no room for the zero.
std::string without_zero(std::string text) { return text.starts_with("0.") ? text.substr(1) : text; }

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A field of the progress line; the one with the highest rank goes first when the line is too long.
struct Field {
  std::string text;
  int rank;
};

std::string join(const std::vector<Field>& fields) {
  std::string line;
  for (const Field& field : fields) line += (line.empty() ? "" : " | ") + field.text;
  return line;
}

}  // namespace

void Ema::add(double value) {
  if (!std::isfinite(value)) return;
  mean_ = weight_ * mean_ + (1 - weight_) * value;
  missing_ *= weight_;
}

std::optional<double> Ema::value() const {
  if (missing_ == 1) return std::nullopt;
  return mean_ / (1 - missing_);
}

void Amortised::add(std::int64_t step, double seconds) {
  if (first_ && std::isfinite(seconds)) seconds_ += seconds;
  if (!first_) first_ = step;
  last_ = step;
}

double Amortised::seconds_per_step() const {
  return first_ && last_ > *first_ ? seconds_ / static_cast<double>(last_ - *first_) : 0;
}

Console::Console(ConsoleOptions options) : options_(std::move(options)) {
  QUERN_CHECK(options_.log_interval >= 1, options_.log_interval);
  if (!options_.clock) options_.clock = steady_seconds;
  if (!options_.resident) options_.resident = resident_bytes;
  if (!options_.width) options_.width = [fd = options_.terminal.fd] { return terminal_width(fd); };
}

Console::~Console() {
  erase_progress();
  flush(true);
}

void Console::on_start(const StartEvent& event) { describe(event); }

void Console::on_resume(const ResumeEvent& event) {
  describe(event.start);
  say("resumed after step " + grouped(event.start.step) + " from " + event.checkpoint);
}

void Console::describe(const StartEvent& start) {
  start_ = start;
  first_step_ = start.step + 1;
  say(start.name + ": " + grouped(start.parameters) + " parameters, vocabulary " + grouped(start.vocab_size));
  const auto split = [](std::int64_t n, const std::string& of, const std::string& none) {
    return n > 0 ? grouped(n) + " " + of : none;
  };
  if (start.examples) {
    say(split(start.examples->train, "training examples", "training examples without end") + ", " +
        split(start.examples->val, "validation examples", "no validation"));
  } else {
    say(split(start.train_tokens, "training tokens", "0 training tokens") + ", " +
        split(start.val_tokens, "validation tokens", "no validation"));
  }
  const std::string step = !start.examples ? " steps of " + grouped(start.tokens_per_step) + " tokens in "
                           : start.examples->per_step > 0
                               ? " steps of " + grouped(start.examples->per_step) + " examples in "
                               : " steps in ";
  say(grouped(start.max_steps) + step + start.precision + " on " + std::to_string(start.threads) +
      (start.threads == 1 ? " thread, " : " threads, ") + start.isa);
  say("run directory " + start.run_dir);
}

void Console::on_step(const StepEvent& event) {
  last_step_ = event;
  loss_.add(event.loss);
  // The first step of a process pays for what is made once; it would spoil the averages.
  if (event.step > first_step_ || event.step == start_.max_steps) {
    step_ms_.add(event.ms);
    step_tokens_.add(event.tokens_per_second * event.ms / 1000);
  }
  if (options_.quiet) return;
  const bool last = event.step == start_.max_steps;
  if (options_.terminal.live) {
    const double now = options_.clock();
    if (!last && last_draw_ && now - *last_draw_ < seconds_between_redraws) return;
    last_draw_ = now;
    redraw(event);
  } else if (last || event.step == first_step_ || event.step % options_.log_interval == 0) {
    say(progress(event));
  }
}

void Console::on_eval(const EvalEvent& event) {
  evaluations_.add(event.step, event.seconds);
  if (event.split == "val") val_ = event.loss;
  std::string metrics;
  for (const TaskMetric& metric : event.metrics) metrics += ", " + metric.name + " " + fixed(metric.value, 4);
  say("step " + grouped(event.step) + ": " + event.split + " loss " + fixed(event.loss, 4) +
      (event.best ? " (best)" : "") + metrics + ", " + grouped(event.tokens) + " tokens in " +
      duration(event.seconds));
}

void Console::on_checkpoint(const CheckpointEvent& event) {
  checkpoints_.add(event.step, event.seconds);
  say("step " + grouped(event.step) + ": saved " + event.path + " in " + duration(event.seconds));
}

void Console::on_sample(const SampleEvent& event) {
  on_note({event.step, "sample at step " + grouped(event.step) + ":\n" + event.prompt + event.text, false});
}

void Console::on_anomaly(const AnomalyEvent& event) {
  // With "stop" the run ends with an error that says the same.
  if (event.action != "stop") on_note({event.step, event.text, true});
}

void Console::on_note(const NoteEvent& event) {
  if (options_.quiet && !event.warning) return;
  std::string text = harmless(event.text);
  while (text.ends_with('\n')) text.pop_back();
  erase_progress();
  write(coloured(text, event.warning ? "33" : "", options_.terminal.colour) + "\n");
}

void Console::on_end(const EndEvent& event) {
  // What was redrawn so far stays as a line of its own.
  if (options_.terminal.live && last_step_) say(progress(*last_step_));
  std::string line = event.status + " after step " + grouped(event.step) + " in " + duration(event.seconds);
  if (event.best_val) {
    line += "; best validation loss " + fixed(*event.best_val, 4) + " at step " + grouped(event.best_step);
  }
  say(line);
  if (event.status == "interrupted") say("go on with: quern train --resume " + shell_word(start_.run_dir));
  flush(true);
}

double Console::seconds_left(const StepEvent& step) const {
  const double per_step = step_ms_.value().value_or(step.ms) / 1000;
  const double pauses = evaluations_.seconds_per_step() + checkpoints_.seconds_per_step();
  return static_cast<double>(std::max<std::int64_t>(0, start_.max_steps - step.step)) * (per_step + pauses);
}

std::string Console::progress(const StepEvent& step) const {
  const std::string total = std::to_string(start_.max_steps);
  std::string at = std::to_string(step.step);
  at.insert(0, at.size() < total.size() ? total.size() - at.size() : 0, ' ');
  const double share =
      start_.max_steps > 0 ? static_cast<double>(step.step) / static_cast<double>(start_.max_steps) : 1;
  const double ms = step_ms_.value().value_or(step.ms);
  const double tokens = step_tokens_.value().value_or(step.tokens_per_second * step.ms / 1000);
  const auto number = [&](double value, int decimals) {
    return std::isnan(value) && step.without_target() ? "-" : fixed(value, decimals);
  };
  const std::string loss = "loss " + number(step.loss, 3);
  const std::string ema = " (ema " + number(loss_.value().value_or(step.loss), 2) + ")";

  std::vector<Field> fields;
  fields.push_back({"step " + at + "/" + total + " " + fixed(std::floor(100 * share), 0) + "%", 0});
  fields.push_back({loss + ema, 1});
  if (val_) fields.push_back({"val " + fixed(*val_, 2), 3});
  fields.push_back({"lr " + scientific(step.lr, 2), 5});
  fields.push_back(
      {"gnorm " + without_zero(step.grad_norm >= 100 ? compact(step.grad_norm) : number(step.grad_norm, 2)),
       6});
  fields.push_back({compact(ms > 0 ? tokens / ms * 1000 : 0) + " tok/s", 4});
  fields.push_back({(ms < 10 ? fixed(ms, 1) : fixed(ms, 0)) + " ms/step", 7});
  if (const std::int64_t bytes = options_.resident(); bytes > 0)
    fields.push_back({"RSS " + binary_size(bytes), 8});
  fields.push_back({"ETA " + clock_time(seconds_left(step)), 2});
  if (!options_.terminal.tty) return join(fields);

  const int columns = std::max(1, options_.width() - 1);  // a full line would wrap
  std::string line = join(fields);
  while (static_cast<int>(line.size()) > columns && fields.size() > 1) {
    const auto least = std::max_element(fields.begin(), fields.end(),
                                        [](const Field& a, const Field& b) { return a.rank < b.rank; });
    // The average beside the loss goes before the fields that nothing else tells.
    if (least->rank <= 4 && fields[1].text.size() > loss.size()) {
      fields[1].text = loss;
    } else {
      fields.erase(least);
    }
    line = join(fields);
  }
  return fit(line, columns, true);
}

void Console::say(const std::string& line) {
  if (options_.quiet) return;
  erase_progress();
  write(harmless(line) + "\n");
}

// The cursor rests at the start of the line and the erasure goes to the end of the screen: wherever a resized
// terminal moves or wraps the old line, all of it is behind the cursor and goes away.
void Console::redraw(const StepEvent& step) {
  if (!pending_.empty()) flush(false);
  if (!pending_.empty()) return;  // the terminal is stopped or slow: a later line says more
  write("\r" + progress(step) + "\x1b[J\r");
  shown_ = true;
}

void Console::erase_progress() {
  if (shown_) write("\r\x1b[J");
  shown_ = false;
}

// Training never waits for whoever reads: what the other end does not take now is kept, up to a limit.
void Console::write(std::string_view text) {
  if (broken_) return;
  if (pending_.size() + text.size() > most_pending) {
    ++dropped_;
  } else {
    if (std::exchange(dropped_, 0) > 0) pending_ += "[some lines are missing: nobody read them in time]\n";
    pending_ += text;
  }
  flush(false);
}

void Console::flush(bool wait) {
  while (!broken_ && !pending_.empty()) {
    pollfd ready{options_.terminal.fd, POLLOUT, 0};
    const int count = poll(&ready, 1, wait ? -1 : 0);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) return;
    const ssize_t written = ::write(options_.terminal.fd, pending_.data(), std::min(piece, pending_.size()));
    if (written < 0 && errno == EAGAIN && !wait) return;
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    broken_ = written < 0;
    if (!broken_) pending_.erase(0, static_cast<std::size_t>(written));
  }
}

}  // namespace quern
