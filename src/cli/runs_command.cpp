// quern runs ls | diff
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/load.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/train/run_list.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/table.hpp"
#include "quern/watch/terminal.hpp"
#include "run_json.hpp"

namespace quern::cli {

namespace {

struct ListOptions {
  std::string folder = "runs", sort = "loss";
  bool json = false;
};

struct DiffOptions {
  std::string a, b;
  bool json = false;
};

/// Steps as short as a table needs them: every digit up to 99999, then three.
std::string short_count(std::int64_t count) {
  return count < 100'000 ? std::to_string(count) : compact(static_cast<double>(count));
}

std::vector<std::string> row_of(const ListedRun& run) {
  std::vector<std::string> row = {run.name, run.status, "-", "-", "-", "-", "-", "-", "-"};
  if (!run.summary) return row;
  const RunSummary& summary = *run.summary;
  row[2] = short_count(summary.step);
  if (summary.max_steps) row[2] += "/" + short_count(*summary.max_steps);
  if (summary.best) {
    row[3] = fixed(summary.best->loss, 4);
    row[4] = short_count(summary.best->step);
  }
  if (summary.train_loss) row[5] = fixed(*summary.train_loss, 4);
  if (summary.parameters) row[6] = compact(static_cast<double>(*summary.parameters));
  row[7] = compact(static_cast<double>(summary.tokens));
  row[8] = clock_time(summary.seconds);
  return row;
}

int list(const ListOptions& options) {
  Files files;
  RunList found = list_runs(files, options.folder);
  for (const std::string& warning : found.warnings) say("warning: " + warning);
  if (found.runs.empty() && found.folders.empty())
    say("there are no runs in " + options.folder + "; `quern train` makes one");
  sort_runs(found.runs, run_order_named(options.sort).value());
  if (options.json) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const ListedRun& run : found.runs) runs.push_back(run_json(run));
    write_json({{"runs", std::move(runs)}});
  } else if (!found.runs.empty()) {
    Table table;
    table.columns = {{"name", false}, {"status", false}, {"step", true},   {"val loss", true}, {"at", true},
                     {"train", true}, {"params", true},  {"tokens", true}, {"time", true}};
    for (const ListedRun& run : found.runs) table.rows.push_back(row_of(run));
    const Terminal terminal = inspect_terminal(STDOUT_FILENO);
    write_out(draw(table, terminal.width, !terminal.utf8));
  }
  for (const auto& [folder, held] : found.folders)
    say(std::to_string(held) + " more in " + folder.string() + ": quern runs ls " +
        shell_word(folder.string()));
  return 0;
}

/// A run that is compared: it must be one, and its config must be readable.
struct Compared {
  Config config;
  ListedRun run;
};

Compared compared(Files& files, const std::string& path) {
  require_run(files, path);
  return {stored_config(files, path), look_at_run(files, path)};
}

std::string best_of(const ListedRun& run) { return run.summary ? best_text(*run.summary) : "unreadable"; }

std::string diff_text(const std::vector<Difference>& found, const Compared& a, const Compared& b,
                      bool ascii) {
  Table table;
  table.columns = {{"field", false}, {a.run.name, false}, {b.run.name, false}};
  for (const Difference& difference : found)
    table.rows.push_back({difference.path, difference.before, difference.after});
  if (!found.empty()) table.rows.push_back({"", "", ""});
  table.rows.push_back({"best val loss", best_of(a.run), best_of(b.run)});
  return (found.empty() ? "the configs are equal\n" : "") + draw(table, 0, ascii);
}

nlohmann::ordered_json diff_json(const std::vector<Difference>& found, const Compared& a, const Compared& b) {
  using Json = nlohmann::ordered_json;
  Json fields = Json::array();
  for (const Difference& difference : found)
    fields.push_back({{"path", difference.path},
                      {"a", Json::parse(difference.before)},
                      {"b", Json::parse(difference.after)}});
  return {{"a", run_json(a.run)}, {"b", run_json(b.run)}, {"differences", std::move(fields)}};
}

int diff(const DiffOptions& options) {
  Files files;
  const Compared a = compared(files, options.a), b = compared(files, options.b);
  for (const Compared* each : {&a, &b})
    for (const std::string& problem : each->run.problems) say("warning: " + problem);
  const std::vector<Difference> found = differences(a.config, b.config);
  if (options.json) {
    write_json(diff_json(found, a, b));
  } else {
    write_out(diff_text(found, a, b, !inspect_terminal(STDOUT_FILENO).utf8));
  }
  return 0;
}

}  // namespace

void add_runs(CLI::App& app) {
  CLI::App* group = add_command_group(
      app, "runs", "List the runs of a folder, and compare two",
      {"quern runs ls", "quern runs ls runs --sort time", "quern runs diff runs/one runs/two"});

  const auto listed = std::make_shared<ListOptions>();
  CLI::App* command = add_command(*group, "ls", "List the runs of a folder, the lowest validation loss first",
                                  {"quern runs ls", "quern runs ls elsewhere/runs --sort duration",
                                   "quern runs ls --json | jq -r '.runs[0].path'"},
                                  [listed] { return list(*listed); });
  add_text(*command, "folder", listed->folder, "FOLDER", "The folder that holds the runs");
  add_choice(*command, "--sort", listed->sort, {"loss", "duration", "parameters", "time", "name"},
             "Lowest loss, longest duration, most parameters, newest or first name first");
  command->add_flag("--json", listed->json, "Print one JSON object");

  const auto named = std::make_shared<DiffOptions>();
  command = add_command(*group, "diff", "Show the fields in which the configs of two runs differ",
                        {"quern runs diff runs/one runs/two", "quern runs diff runs/one runs/latest",
                         "quern runs diff runs/one runs/two --json | jq .differences"},
                        [named] { return diff(*named); });
  add_text(*command, "a", named->a, "RUN", "A run's directory")->required();
  add_text(*command, "b", named->b, "RUN", "Another run's directory")->required();
  command->add_flag("--json", named->json, "Print one JSON object");
}

}  // namespace quern::cli
