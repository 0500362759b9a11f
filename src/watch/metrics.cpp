#include "quern/watch/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "quern/base/strict_json.hpp"

namespace quern {

namespace {

namespace fs = std::filesystem;

/// One line's fields, each read with its type checked; what is wrong is thrown as a plain sentence.
struct Wrong {
  std::string what;
};

class Line {
 public:
  explicit Line(const Json& json) : json_(json) {}

  std::int64_t whole(const char* name) const {
    const auto* value = std::get_if<std::uint64_t>(&required(name).value);
    if (value == nullptr || !std::in_range<std::int64_t>(*value)) {
      throw Wrong{quoted(name) + " is not a whole number of 0 or more"};
    }
    return static_cast<std::int64_t>(*value);
  }
  double number(const char* name) const {
    const Json& value = required(name);
    if (value.is<std::nullptr_t>()) return std::numeric_limits<double>::quiet_NaN();
    if (const auto* number = std::get_if<double>(&value.value)) return *number;
    if (const auto* number = std::get_if<std::uint64_t>(&value.value)) return static_cast<double>(*number);
    if (const auto* number = std::get_if<std::int64_t>(&value.value)) return static_cast<double>(*number);
    throw Wrong{quoted(name) + " is not a number"};
  }
  std::string text(const char* name) const {
    const auto* value = std::get_if<std::string>(&required(name).value);
    if (value == nullptr) throw Wrong{quoted(name) + " is not a string"};
    return *value;
  }
  bool has(const char* name) const { return json_.find(name) != nullptr; }

  void read(const char* name, std::int64_t& to) const {
    if (has(name)) to = whole(name);
  }
  void read(const char* name, int& to) const {
    if (has(name))
      to = static_cast<int>(std::min<std::int64_t>(whole(name), std::numeric_limits<int>::max()));
  }
  void read(const char* name, double& to) const {
    if (has(name)) to = number(name);
  }
  void read(const char* name, std::optional<double>& to) const {
    if (has(name)) to = number(name);
  }
  void read(const char* name, std::string& to) const {
    if (has(name)) to = text(name);
  }

 private:
  static std::string quoted(const char* name) { return "\"" + std::string(name) + "\""; }
  const Json& required(const char* name) const {
    const Json* found = json_.find(name);
    if (found == nullptr) throw Wrong{quoted(name) + " is missing"};
    return *found;
  }

  const Json& json_;
};

StartEvent start_of(const Line& line) {
  StartEvent start;
  line.read("step", start.step);
  line.read("max_steps", start.max_steps);
  start.parameters = line.whole("parameters");
  start.train_tokens = line.whole("train_tokens");
  start.val_tokens = line.whole("val_tokens");
  line.read("vocab_size", start.vocab_size);
  line.read("tokens_per_step", start.tokens_per_step);
  if (line.has("train_examples"))
    start.examples = {line.whole("train_examples"), line.whole("val_examples"),
                      line.whole("examples_per_step")};
  line.read("name", start.name);
  line.read("entropy_floor", start.entropy_floor);
  line.read("threads", start.threads);
  line.read("isa", start.isa);
  line.read("precision", start.precision);
  line.read("data_fingerprint", start.data_fingerprint);
  return start;
}

void add_step(Metrics& metrics, const Line& line) {
  StepEvent step;
  step.step = line.whole("step");
  step.tokens = line.whole("tokens");
  step.loss = line.number("loss");
  line.read("smoothed_loss", step.smoothed_loss);
  step.lr = line.number("lr");
  step.grad_norm = line.number("grad_norm");
  step.ms = line.number("ms");
  step.tokens_per_second = line.number("tokens_per_second");
  if (line.has("data_ms"))
    step.phases = {line.number("data_ms"), line.number("forward_ms"), line.number("backward_ms"),
                   line.number("optimizer_ms")};
  line.read("rss", step.rss);
  line.read("update_ratio", step.update_ratio);
  if (!metrics.steps.empty() && step.step <= metrics.steps.back().step) {
    throw Wrong{"step " + std::to_string(step.step) + " follows step " +
                std::to_string(metrics.steps.back().step)};
  }
  metrics.steps.push_back(step);
}

/// The metrics that tasks have.
constexpr const char* metric_names[] = {"accuracy", "macro_f1", "exact_match", "mse", "r2"};

/// Each is held against the others of its step.
constexpr std::size_t max_splits = 64;

void add_eval(Metrics& metrics, const Line& line) {
  EvalEvent eval;
  eval.step = line.whole("step");
  eval.split = line.text("split");
  eval.loss = line.number("loss");
  eval.tokens = line.whole("tokens");
  line.read("seconds", eval.seconds);
  for (const char* name : metric_names)
    if (line.has(name)) eval.metrics.push_back({name, line.number(name)});
  std::size_t splits = 0;  // of this step
  for (auto other = metrics.evals.rbegin(); other != metrics.evals.rend() && other->step >= eval.step;
       ++other) {
    if (++splits == max_splits)
      throw Wrong{"more than " + std::to_string(max_splits) + " splits in one step"};
    if (other->step > eval.step || other->split == eval.split) {
      throw Wrong{"the evaluation of step " + std::to_string(eval.step) + " follows that of step " +
                  std::to_string(other->step)};
    }
  }
  metrics.evals.push_back(eval);
}

void add_anomaly(Metrics& metrics, const Line& line) {
  AnomalyEvent& anomaly = metrics.anomalies.emplace_back();
  anomaly.step = line.whole("step");
  anomaly.kind = line.text("kind");
  anomaly.action = line.text("action");
  anomaly.loss = line.number("loss");
  anomaly.grad_norm = line.number("grad_norm");
  line.read("z_score", anomaly.z_score);
  if (line.has("after")) anomaly.after = line.whole("after");
  anomaly.text = line.text("text");
}

void add(Metrics& metrics, const Json& json) {
  if (!json.is<Json::Object>()) throw Wrong{"not a JSON object"};
  const Line line(json);
  const std::string event = line.text("event");
  if (event == "start") {
    if (metrics.start) throw Wrong{"a second \"start\""};
    metrics.start = start_of(line);
    line.read("time", metrics.started);
  } else if (event == "resume") {
    metrics.resumes.push_back(line.whole("step"));
    if (metrics.start)
      line.read("max_steps", metrics.start->max_steps);
    else if (line.has("parameters"))
      metrics.start = start_of(line);  // the file was lost, and begins with this process
    metrics.end.reset();
  } else if (event == "step") {
    add_step(metrics, line);
  } else if (event == "eval") {
    add_eval(metrics, line);
  } else if (event == "checkpoint") {
    CheckpointEvent& checkpoint = metrics.checkpoints.emplace_back();
    checkpoint.step = line.whole("step");
    checkpoint.path = line.text("path");
    line.read("seconds", checkpoint.seconds);
  } else if (event == "sample") {
    metrics.samples.push_back({line.whole("step"), line.text("prompt"), line.text("text")});
  } else if (event == "anomaly") {
    add_anomaly(metrics, line);
  } else if (event == "warning") {
    metrics.warnings.push_back({line.whole("step"), line.text("text"), true});
  } else if (event == "end") {
    EndEvent& end = metrics.end.emplace();
    end.step = line.whole("step");
    end.status = line.text("status");
    line.read("seconds", end.seconds);
    line.read("best_val", end.best_val);
    line.read("best_step", end.best_step);
  }
}

/// Nothing where the line is no JSON.
std::optional<Json> parsed(std::string_view line) {
  try {
    return parse_strict(line, "", ErrorKind::file).root;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The lines of a file, read in pieces: what is held is a piece, or the longest line.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(files_.open_read(path)), bytes_(file_.size()) {
    if (bytes_ > max_bytes)
      throw Error(ErrorKind::file,
                  "the file has " + std::to_string(bytes_) + " bytes, more than the " +
                      std::to_string(max_bytes) + " allowed here",
                  "", path);
  }

  /// The next line, without its end; `whole` when it has one. False behind the last.
  bool next(std::string_view& line, bool& whole) {
    std::size_t newline;
    while ((newline = text_.find('\n', begin_)) == std::string::npos && at_ < bytes_) read_on();
    if (begin_ == text_.size()) return false;
    whole = newline != std::string::npos;
    const std::size_t end = whole ? newline : text_.size();
    line = std::string_view(text_).substr(begin_, end - begin_);
    begin_ = whole ? end + 1 : end;
    return true;
  }

 private:
  static constexpr std::uint64_t max_bytes = std::uint64_t{4} << 30, piece = 1 << 18;

  void read_on() {
    text_.erase(0, std::exchange(begin_, 0));
    const std::size_t held = text_.size(), more = std::min(std::max(piece, held), bytes_ - at_);
    text_.resize(held + more);
    file_.read_at(at_, text_.data() + held, more);
    at_ += more;
  }

  Files files_;
  File file_;
  std::uint64_t bytes_, at_ = 0;  // of the file, and read so far
  std::string text_;
  std::size_t begin_ = 0;  // of the next line
};

/// Reads lines as long as `wanted` says so of the next one, whose newline `whole` tells of.
Metrics read_lines(const std::string& path,
                   const std::function<bool(std::string_view, const Json&, bool whole)>& wanted) {
  Lines lines(path);
  Metrics metrics;
  std::int64_t number = 0;
  bool whole = true;
  for (std::string_view line; lines.next(line, whole);) {
    ++number;
    const std::optional<Json> json = parsed(line);
    if (!json && !whole) break;  // still being written, or cut short
    if (!json && number == 1)
      throw Error(ErrorKind::file, "this is no metrics.jsonl: its first line is no JSON",
                  "name a run's directory or the metrics.jsonl in it; where that is damaged, resuming the "
                  "run mends it",
                  path + ":1");
    try {
      if (!json) throw Wrong{"not JSON"};
      if (!wanted(line, *json, whole)) break;
      add(metrics, *json);
    } catch (const Wrong& wrong) {
      throw Error(ErrorKind::file, "a line of the metrics is wrong: " + wrong.what,
                  "the file was changed or damaged; resuming the run cuts it to its last checkpoint",
                  path + ":" + std::to_string(number));
    }
  }
  return metrics;
}

/// Whether a run tells this before its checkpoint of `step` is made, or when it begins or goes on from there.
bool comes_before(const Json& json, std::int64_t step) {
  if (!json.is<Json::Object>()) return true;  // add() says what is wrong
  const Line line(json);
  const std::string event = line.text("event");
  const char* name = line.has("after") ? "after" : "step";  // of a rollback: where it has led
  const std::int64_t at = line.has(name) ? line.whole(name) : 0;
  return event == "start" || event == "step" || event == "resume" || event == "warning" ? at <= step
                                                                                        : at < step;
}

}  // namespace

const EvalEvent* best_evaluation(const Metrics& metrics) {
  const EvalEvent* best = nullptr;
  for (const EvalEvent& eval : metrics.evals) {
    if (eval.split == "val" && std::isfinite(eval.loss) && (!best || eval.loss < best->loss)) best = &eval;
  }
  return best;
}

Metrics read_metrics(const std::string& path) {
  return read_lines(path, [](std::string_view, const Json&, bool) { return true; });
}

std::int64_t metrics_bytes_up_to(const std::string& path, std::int64_t step) {
  std::int64_t bytes = 0;
  read_lines(path, [&](std::string_view line, const Json& json, bool whole) {
    if (!whole || !comes_before(json, step)) return false;
    bytes += static_cast<std::int64_t>(line.size()) + 1;
    return true;
  });
  return bytes;
}

Metrics read_run(const std::string& run) {
  std::error_code error;
  const fs::file_status status = fs::status(run, error);
  if (status.type() == fs::file_type::not_found) {
    throw Error(ErrorKind::run, "there is no run here", "name a run's directory or its metrics.jsonl", run);
  }
  if (!fs::is_directory(status)) return read_metrics(run);
  const fs::path metrics = fs::path(run) / "metrics.jsonl";
  if (!fs::exists(metrics, error) && !error) {  // an error: reading says why
    throw Error(ErrorKind::run, "this directory is no run: it holds no metrics.jsonl",
                "name a run's directory, such as runs/latest", run);
  }
  return read_metrics(metrics.string());
}

}  // namespace quern
