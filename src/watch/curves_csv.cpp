#include "quern/watch/curves_csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "quern/watch/series.hpp"
#include "quern/watch/terminal.hpp"

namespace quern {

namespace {

/// One line of the table, field by field.
class Row {
 public:
  explicit Row(std::string& csv) : csv_(csv) {}

  void text(const std::string& field) {
    begin_field();
    if (field.find_first_of("\",\r\n") == std::string::npos) {
      csv_ += field;
      return;
    }
    csv_ += '"';
    for (const char c : field) csv_ += c == '"' ? std::string("\"\"") : std::string(1, c);
    csv_ += '"';
  }
  void number(double value) {
    begin_field();
    char digits[32];
    if (std::isfinite(value)) csv_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  void whole(std::int64_t value) {
    begin_field();
    csv_ += std::to_string(value);
  }
  void empty(std::size_t fields) {
    for (std::size_t i = 0; i < fields; ++i) begin_field();
  }
  void end() { csv_ += '\n'; }

 private:
  void begin_field() {
    if (!first_) csv_ += ',';
    first_ = false;
  }

  std::string& csv_;
  bool first_ = true;
};

constexpr const char* columns[] = {"run",         "event",        "step",
                                   "tokens",      "seconds",      "loss",
                                   "lr",          "grad_norm",    "tokens_per_second",
                                   "ms",          "data_ms",      "forward_ms",
                                   "backward_ms", "optimizer_ms", "rss",
                                   "update_ratio"};
constexpr std::size_t step_columns = 10;  // those behind the loss, which evaluations do not have

void add_step(std::string& csv, const std::string& name, const StepEvent& step, double seconds,
              std::size_t metrics) {
  Row row(csv);
  row.text(name);
  row.text("step");
  row.whole(step.step);
  row.whole(step.tokens);
  for (const double value : {seconds, step.loss, step.lr, step.grad_norm, step.tokens_per_second, step.ms})
    row.number(value);
  if (const auto& phases = step.phases) {
    for (const double ms : {phases->data, phases->forward, phases->backward, phases->optimizer})
      row.number(ms);
  } else {
    row.empty(4);
  }
  step.rss > 0 ? row.whole(step.rss) : row.empty(1);
  row.number(step.update_ratio.value_or(std::numeric_limits<double>::quiet_NaN()));
  row.empty(metrics);
  row.end();
}

void add_eval(std::string& csv, const std::string& name, const EvalEvent& eval, double tokens, double seconds,
              const std::vector<std::string>& metrics) {
  Row row(csv);
  row.text(name);
  row.text("eval");
  row.whole(eval.step);
  row.whole(static_cast<std::int64_t>(tokens));
  row.number(seconds);
  row.number(eval.loss);
  row.empty(step_columns);
  for (const std::string& metric : metrics) row.number(task_metric(eval, metric));
  row.end();
}

void add_run(std::string& csv, const NamedMetrics& run, const std::vector<std::string>& metrics) {
  const std::string name = harmless(run.name);
  const std::vector<Point> clock = step_series(run.metrics, Metric::loss, XAxis::time);
  const std::vector<Point> eval_clock = eval_series(run.metrics, XAxis::time);
  const std::vector<Point> eval_tokens = eval_series(run.metrics, XAxis::tokens);
  std::size_t step = 0, eval = 0;
  const auto steps_before = [&](std::int64_t end) {
    for (; step < run.metrics.steps.size() && run.metrics.steps[step].step <= end; ++step)
      add_step(csv, name, run.metrics.steps[step], clock[step].x, metrics.size());
  };
  for (const EvalEvent& event : run.metrics.evals) {
    if (event.split != "val") continue;
    steps_before(event.step);
    add_eval(csv, name, event, eval_tokens[eval].x, eval_clock[eval].x, metrics);
    ++eval;
  }
  steps_before(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

std::string curves_csv(const std::vector<NamedMetrics>& runs) {
  std::vector<std::string> metrics;
  for (const NamedMetrics& run : runs)
    for (const std::string& name : task_metric_names(run.metrics.evals))
      if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
  std::string csv;
  Row names(csv);
  for (const char* name : columns) names.text(name);
  for (const std::string& name : metrics) names.text(name);
  names.end();
  for (const NamedMetrics& run : runs) add_run(csv, run, metrics);
  return csv;
}

std::vector<std::string> task_metric_names(const std::vector<EvalEvent>& evals) {
  std::vector<std::string> names;
  for (const EvalEvent& eval : evals)
    for (const TaskMetric& metric : eval.metrics)
      if (std::find(names.begin(), names.end(), metric.name) == names.end()) names.push_back(metric.name);
  return names;
}

double task_metric(const EvalEvent& eval, const std::string& name) {
  for (const TaskMetric& found : eval.metrics)
    if (found.name == name) return found.value;
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace quern
