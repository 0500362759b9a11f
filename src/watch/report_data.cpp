#include "report_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "quern/base/suggest.hpp"
#include "quern/watch/curves_csv.hpp"
#include "quern/watch/run_summary.hpp"
#include "quern/watch/series.hpp"
#include "quern/watch/terminal.hpp"
#include "quern/watch/thin.hpp"

namespace quern {

namespace {

using Json = nlohmann::ordered_json;

/// How much of each run fits, so that the page stays small with many of them.
struct Room {
  std::size_t steps, evals, texts, marks;
};

Room room_for(std::size_t runs) {
  const auto share = [&](std::size_t all, std::size_t least, std::size_t most) {
    return std::clamp(all / std::max<std::size_t>(1, runs), least, most);
  };
  return {share(24'000, 200, 5'000), share(5'000, 50, 1'000), share(200, 4, 100), share(2'000, 20, 400)};
}

/// Seven digits are more than a picture shows.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.7g", value);
  const double rounded = std::strtod(digits, nullptr);
  if (std::abs(rounded) < 1e15 && rounded == std::trunc(rounded)) return static_cast<std::int64_t>(rounded);
  return rounded;
}

/// UTC seconds since 1970, whole ones.
Json instant(double seconds) {
  if (!std::isfinite(seconds)) return nullptr;
  return static_cast<std::int64_t>(std::clamp(seconds, -1e15, 1e15));
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

constexpr std::size_t longest_text = 4'000;

/// Text from a run's files.
Json text(std::string_view whole) {
  if (whole.size() <= longest_text) return harmless(whole);
  std::size_t cut = longest_text;
  while (cut > longest_text - 4 && (static_cast<unsigned char>(whole[cut]) & 0xC0) == 0x80) --cut;
  return harmless(whole.substr(0, cut)) + " [" + std::to_string(whole.size() - cut) + " more bytes]";
}

/// At most `most` of `count` things, the first and the last among them.
std::vector<std::size_t> evenly(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  const std::size_t kept = std::min(count, most);
  for (std::size_t i = 0; i < kept; ++i) chosen.push_back(kept > 1 ? i * (count - 1) / (kept - 1) : 0);
  return chosen;
}

/// Adds a list under `name`, at most `most` of `things` as `json_of` writes them, and how many there are.
template <class Thing, class JsonOf>
void add_list(Json& run, const std::string& name, const std::vector<Thing>& things, std::size_t most,
              JsonOf json_of) {
  Json list = Json::array();
  for (const std::size_t i : evenly(things.size(), most)) list.push_back(json_of(things[i]));
  run[name] = std::move(list);
  run[name + "_made"] = things.size();
}

struct NamedColumn {
  const char* name;
  std::vector<double> values;
};

/// A value of each step.
template <class ValueOf>
std::vector<double> column_of(const std::vector<StepEvent>& steps, ValueOf value_of) {
  std::vector<double> values;
  values.reserve(steps.size());
  for (const StepEvent& step : steps) values.push_back(static_cast<double>(value_of(step)));
  return values;
}

/// What is drawn over the steps, of which extremes are kept: the first three.
std::vector<NamedColumn> measured(const std::vector<StepEvent>& steps) {
  std::vector<NamedColumn> columns = {
      {"loss", column_of(steps, [](const StepEvent& s) { return s.loss; })},
      {"grad_norm", column_of(steps, [](const StepEvent& s) { return s.grad_norm; })},
      {"tokens_per_second", column_of(steps, [](const StepEvent& s) { return s.tokens_per_second; })},
      {"lr", column_of(steps, [](const StepEvent& s) { return s.lr; })},
      {"ms", column_of(steps, [](const StepEvent& s) { return s.ms; })}};
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto phase = [&](double StepPhases::*part) {
    return column_of(steps, [=](const StepEvent& s) { return s.phases ? (*s.phases).*part : none; });
  };
  if (std::any_of(steps.begin(), steps.end(), [](const StepEvent& s) { return s.phases.has_value(); })) {
    columns.push_back({"data_ms", phase(&StepPhases::data)});
    columns.push_back({"forward_ms", phase(&StepPhases::forward)});
    columns.push_back({"backward_ms", phase(&StepPhases::backward)});
    columns.push_back({"optimizer_ms", phase(&StepPhases::optimizer)});
  }
  if (std::any_of(steps.begin(), steps.end(), [](const StepEvent& s) { return s.update_ratio.has_value(); }))
    columns.push_back({"update_ratio",
                       column_of(steps, [&](const StepEvent& s) { return s.update_ratio.value_or(none); })});
  if (std::any_of(steps.begin(), steps.end(), [](const StepEvent& s) { return s.rss > 0; }))
    columns.push_back({"rss", column_of(steps, [&](const StepEvent& s) {
                         return s.rss > 0 ? static_cast<double>(s.rss) : none;
                       })});
  return columns;
}

void add_steps(Json& run, const Metrics& metrics, std::size_t most) {
  const std::vector<NamedColumn> columns = measured(metrics.steps);
  const std::vector<Point> clock = step_series(metrics, Metric::loss, XAxis::time);
  const std::vector<double> extremes[] = {columns[0].values, columns[1].values, columns[2].values};
  const std::vector<std::size_t> kept = kept_rows(extremes, most);
  Json steps = {{"step", Json::array()}, {"tokens", Json::array()}, {"seconds", Json::array()}};
  for (const std::size_t row : kept) {
    steps["step"].push_back(metrics.steps[row].step);
    steps["tokens"].push_back(metrics.steps[row].tokens);
    steps["seconds"].push_back(number(clock[row].x));
  }
  Json means = Json::object();
  for (const NamedColumn& column : columns) {
    Json& values = steps[column.name] = Json::array();
    for (const std::size_t row : kept) values.push_back(number(column.values[row]));
    if (kept.size() < metrics.steps.size()) means[column.name] = numbers(means_between(column.values, kept));
  }
  run["steps"] = std::move(steps);
  run["steps_made"] = metrics.steps.size();
  if (!means.empty()) run["means"] = std::move(means);
}

void add_evals(Json& run, const Metrics& metrics, std::size_t most) {
  std::vector<EvalEvent> evals;
  std::copy_if(metrics.evals.begin(), metrics.evals.end(), std::back_inserter(evals),
               [](const EvalEvent& eval) { return eval.split == "val"; });
  const std::vector<Point> clock = eval_series(metrics, XAxis::time);
  const std::vector<Point> tokens = eval_series(metrics, XAxis::tokens);
  const std::vector<std::string> names = task_metric_names(evals);
  std::vector<std::vector<double>> columns(1 + names.size());
  for (const EvalEvent& eval : evals) {
    columns[0].push_back(eval.loss);
    for (std::size_t i = 0; i < names.size(); ++i) columns[1 + i].push_back(task_metric(eval, names[i]));
  }
  Json table = {{"step", Json::array()},
                {"tokens", Json::array()},
                {"seconds", Json::array()},
                {"loss", Json::array()}};
  for (const std::string& name : names) table[name] = Json::array();
  for (const std::size_t row : kept_rows(columns, most)) {
    table["step"].push_back(evals[row].step);
    table["tokens"].push_back(static_cast<std::int64_t>(tokens[row].x));
    table["seconds"].push_back(number(clock[row].x));
    table["loss"].push_back(number(columns[0][row]));
    for (std::size_t i = 0; i < names.size(); ++i) table[names[i]].push_back(number(columns[1 + i][row]));
  }
  run["evals"] = std::move(table);
  run["evals_made"] = evals.size();
}

Json anomaly_json(const AnomalyEvent& anomaly) {
  Json json = {{"step", anomaly.step},
               {"kind", text(anomaly.kind)},
               {"action", text(anomaly.action)},
               {"loss", number(anomaly.loss)},
               {"grad_norm", number(anomaly.grad_norm)},
               {"text", text(anomaly.text)}};
  if (anomaly.z_score) json["z_score"] = number(*anomaly.z_score);
  if (anomaly.after) json["after"] = *anomaly.after;
  return json;
}

void add_events(Json& run, const ReportRun& of, const Room& room) {
  const Metrics& metrics = of.metrics;
  add_list(run, "checkpoints", metrics.checkpoints, room.marks,
           [](const CheckpointEvent& checkpoint) { return Json(checkpoint.step); });
  add_list(run, "resumes", metrics.resumes, room.marks, [](std::int64_t step) { return Json(step); });
  add_list(run, "anomalies", metrics.anomalies, room.marks, anomaly_json);
  add_list(run, "samples", metrics.samples, room.texts, [](const SampleEvent& sample) {
    return Json{{"step", sample.step}, {"prompt", text(sample.prompt)}, {"text", text(sample.text)}};
  });
  std::vector<NoteEvent> warnings = metrics.warnings;
  for (const std::string& problem : of.problems)
    warnings.push_back({run["step"].get<std::int64_t>(), problem, true});
  add_list(run, "warnings", warnings, room.texts, [](const NoteEvent& warning) {
    return Json{{"step", warning.step}, {"text", text(warning.text)}};
  });
}

Json facts_json(const StartEvent& start) {
  Json facts = {{"vocab_size", start.vocab_size},
                {"tokens_per_step", start.tokens_per_step},
                {"threads", start.threads},
                {"isa", text(start.isa)},
                {"precision", text(start.precision)}};
  if (start.examples) {
    facts["train_examples"] = start.examples->train;
    facts["val_examples"] = start.examples->val;
  } else {
    facts["train_tokens"] = start.train_tokens;
    facts["val_tokens"] = start.val_tokens;
  }
  if (start.entropy_floor) facts["entropy_floor"] = number(*start.entropy_floor);
  if (!start.data_fingerprint.empty()) facts["data_fingerprint"] = text(start.data_fingerprint);
  return facts;
}

/// The fields of a stored object, those of its sections as "section.field"; strings are harmless, lists as
/// JSON text.
Json flat(const std::string& stored) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth < 8; };
  const Json object = Json::parse(stored, shallow, false);
  Json fields = Json::object();
  const auto add = [&](const std::string& path, const Json& value) {
    // A list, or a number with more digits than a script's numbers have, is shown as it is written.
    const bool exact = value.is_number_integer() && std::abs(value.get<double>()) <= 0x1p53;
    const bool written = value.is_structured() || (value.is_number_integer() && !exact);
    const Json plain = written ? Json(value.dump()) : value;
    fields[harmless(path)] = plain.is_string() ? text(plain.get<std::string>()) : plain;
  };
  if (!object.is_object()) return fields;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_object()) add(name, value);
    if (!value.is_object()) continue;
    for (const auto& [field, inner] : value.items()) add(name + "." + field, inner);
  }
  return fields;
}

/// The line that trains the same model again, threads included where the run left them open.
Json command(const ReportRun& run, const Json& config, const Json& environment) {
  if (run.config.empty()) return nullptr;
  std::string line =
      "quern train --config " +
      shell_word((std::filesystem::path(run.path) / "config.resolved.json").lexically_normal().string());
  if (config.value("run.threads", Json(1)) == 0 && environment.contains("threads"))
    line += " --set run.threads=" + environment["threads"].dump();
  return text(line);
}

void add_files(Json& json, const ReportRun& run) {
  json["config"] = flat(run.config);
  json["given"] = Json::array();
  const Json given = flat(run.given);
  for (const auto& field : given.items()) json["given"].push_back(field.key());
  json["environment"] = flat(run.environment);
  json["command"] = command(run, json["config"], json["environment"]);
}

Json run_json(const ReportRun& run, const Room& room) {
  const RunSummary summary = summarise(run.metrics);
  Json json = {{"name", text(run.name)},
               {"path", text(run.path)},
               {"status", text(run.status)},
               {"started", instant(summary.started)},
               {"seconds", number(summary.seconds)},
               {"step", summary.step},
               {"tokens", summary.tokens}};
  if (summary.max_steps) json["max_steps"] = *summary.max_steps;
  if (summary.parameters) json["parameters"] = *summary.parameters;
  if (summary.train_loss) json["train_loss"] = number(*summary.train_loss);
  if (summary.best) json["best"] = {{"step", summary.best->step}, {"loss", number(summary.best->loss)}};
  if (run.metrics.start) json["facts"] = facts_json(*run.metrics.start);
  add_files(json, run);
  add_steps(json, run.metrics, room.steps);
  add_evals(json, run.metrics, room.evals);
  add_events(json, run, room);
  return json;
}

}  // namespace

std::string report_json(const std::vector<ReportRun>& runs, double written) {
  Json page = {{"generator", "quern " QUERN_VERSION}, {"written", instant(written)}, {"runs", Json::array()}};
  const Room room = room_for(runs.size());
  for (const ReportRun& run : runs) page["runs"].push_back(run_json(run, room));
  // In JSON '<' occurs within strings alone.
  std::string json;
  for (const char c : page.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<') {
      json += "\\u003c";
    } else {
      json += c;
    }
  }
  return json;
}

}  // namespace quern
