// quern sweep
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/load.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/train/run_list.hpp"
#include "quern/train/session.hpp"
#include "quern/train/signals.hpp"
#include "quern/train/sweep.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/progress.hpp"
#include "quern/watch/report.hpp"
#include "quern/watch/table.hpp"
#include "run_json.hpp"
#include "trainers.hpp"

namespace quern::cli {

namespace {

namespace fs = std::filesystem;

struct SweepOptions : ConfigOptions {
  std::vector<std::string> grid;
  std::optional<std::int64_t> seeds;
  std::int64_t jobs = 1;
  std::string directory;
  bool json = false;
};

/// What is to be done, and where.
struct Plan {
  std::vector<SweepAxis> axes;
  std::vector<SweepRun> runs;
  fs::path directory;
  std::int64_t threads = 1;  // of each run; 0: as the config says
};

bool sets_threads(const SweepOptions& options) {
  const auto is = [](const std::string& text) { return text.starts_with("run.threads="); };
  return std::any_of(options.sets.begin(), options.sets.end(), is) ||
         std::any_of(options.grid.begin(), options.grid.end(), is);
}

std::vector<std::string> joined(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

/// The mistakes of the sweep's configs, each once, at the words that the user typed: a run's --set is a value
/// of --grid.
class Mistakes {
 public:
  explicit Mistakes(const std::vector<std::string>& grid) : grid_(grid) {}

  void add(const Error& error) {
    if (const auto* several = dynamic_cast<const ConfigErrors*>(&error)) {
      for (const ConfigErrors::Item& item : several->items) add(item);
    } else {
      add({error.what(), error.hint, error.place});
    }
  }

  void throw_if_any() const {
    if (!items_.empty()) throw ConfigErrors(items_);
  }

 private:
  void add(ConfigErrors::Item item) {
    for (const std::string& axis : grid_) {
      const std::string set = "--set " + printable(axis.substr(0, axis.find('=') + 1));
      if (item.place.starts_with(set)) item.place = "--grid " + printable(axis);
    }
    const auto alike = [&](const auto& other) {
      return other.what == item.what && other.place == item.place;
    };
    if (std::none_of(items_.begin(), items_.end(), alike)) items_.push_back(std::move(item));
  }

  const std::vector<std::string>& grid_;
  std::vector<ConfigErrors::Item> items_;
};

/// Reads every run's config, so that a mistake in any of them is told before the first starts.
Plan plan_of(const SweepOptions& options) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : options.grid) axes.push_back(sweep_axis(text));
  Plan plan{axes, sweep_runs(axes, options.seeds.value_or(0)), options.directory};
  std::string name;
  Mistakes mistakes(options.grid);
  for (const SweepRun& run : plan.runs) {
    try {
      name = load_config(options.files, joined(options.sets, run.sets)).run.name;
    } catch (const Error& error) {
      mistakes.add(error);
    }
  }
  mistakes.throw_if_any();
  if (plan.directory.empty()) plan.directory = fs::path("runs") / (name + "-sweep");
  if (!sets_threads(options))
    plan.threads = std::max<std::int64_t>(1, default_threads() / options.jobs);
  else
    plan.threads = 0;
  return plan;
}

/// The command line that trains a run, or goes on with it.
std::vector<std::string> words_of(const SweepOptions& options, const Plan& plan, const SweepRun& run) {
  std::vector<std::string> words = {"train", "--quiet",   "--resume",
                                    "auto",  "--run-dir", (plan.directory / run.name).string()};
  for (const std::string& file : options.files) words.insert(words.end(), {"--config", file});
  for (const std::string& set : joined(options.sets, run.sets)) words.insert(words.end(), {"--set", set});
  if (plan.threads > 0) words.insert(words.end(), {"--set", "run.threads=" + std::to_string(plan.threads)});
  return words;
}

/// Refuses a folder whose runs of the same names were trained with other configs: their losses are no results
/// of this one.
void check_runs(Files& files, const SweepOptions& options, const Plan& plan) {
  if (directory_state(files, plan.directory) == DirectoryState::run)
    throw Error(ErrorKind::run, "this is a run; those of a sweep lie in a folder of their own",
                "name another folder: --dir DIR", plan.directory.string());
  for (const SweepRun& run : plan.runs) {
    const fs::path directory = plan.directory / run.name;
    if (directory_state(files, directory) != DirectoryState::run) continue;
    std::optional<Config> stored;
    try {
      stored = stored_config(files, directory);
    } catch (const Error&) {  // damaged: its trainer says so
      continue;
    }
    try {
      resumed_config({options.files, joined(options.sets, run.sets), {}, {}, false, {}, {}}, *stored);
    } catch (const Error& error) {
      throw Error(error.kind, error.what(),
                  "name another folder for this sweep, --dir DIR, or delete that run", directory.string());
    }
  }
}

bool is_complete(Files& files, const SweepOptions& options, const Plan& plan, const SweepRun& run) {
  const fs::path directory = plan.directory / run.name;
  if (directory_state(files, directory) != DirectoryState::run) return false;
  const ListedRun found = look_at_run(files, directory);
  return found.status == "completed" && found.summary &&
         found.summary->step == load_config(options.files, joined(options.sets, run.sets)).run.max_steps;
}

std::string loss_of(const ListedRun& run) {
  return run.summary && run.summary->best ? fixed(run.summary->best->loss, 4) : "-";
}

/// Takes the first of those that wait and that no other process trains; null when there is none. A sweep that
/// was killed leaves trainers behind, which save and end, and another one may train the same runs.
const SweepRun* take_free(Files& files, const Plan& plan, std::deque<const SweepRun*>& waiting) {
  const auto free = std::find_if(waiting.begin(), waiting.end(), [&](const SweepRun* run) {
    const fs::path directory = plan.directory / run->name;
    return directory_state(files, directory) != DirectoryState::run || !in_use(files, directory);
  });
  if (free == waiting.end()) return nullptr;
  const SweepRun* run = *free;
  waiting.erase(free);
  return run;
}

/// Trains what is not complete yet; returns the first failure's exit code, 128 + a signal, or 0.
int train_all(Files& files, const SweepOptions& options, const Plan& plan) {
  std::deque<const SweepRun*> waiting;
  for (const SweepRun& run : plan.runs)
    if (!is_complete(files, options, plan, run)) waiting.push_back(&run);
  const auto total = static_cast<std::int64_t>(plan.runs.size());
  std::int64_t done = total - static_cast<std::int64_t>(waiting.size());
  if (done > 0) say(grouped(done) + " of " + grouped(total) + " runs are complete already");
  ProgressLine progress(inspect_terminal(STDERR_FILENO), "runs", total);
  Trainers trainers;
  int code = 0;
  bool told = false;
  while (!waiting.empty() || trainers.running() > 0) {
    const bool stopping = stop_signal() != 0;
    if (stopping) trainers.stop(stop_signal());
    while (!stopping && trainers.running() < options.jobs) {
      const SweepRun* run = take_free(files, plan, waiting);
      if (run == nullptr) break;
      if (is_complete(files, options, plan, *run)) {
        ++done;  // by another process
      } else {
        trainers.start(run->name, words_of(options, plan, *run));
      }
    }
    if (stopping && trainers.running() == 0) break;
    if (trainers.running() == 0 && !waiting.empty() && !std::exchange(told, true)) {
      progress.erase();
      say("waiting for " + waiting.front()->name + ", which another process trains");
    }
    if (const auto ended = trainers.wait()) {
      ++done;
      progress.erase();
      const ListedRun run = look_at_run(files, plan.directory / ended->name);
      say("[" + grouped(done) + "/" + grouped(total) + "] " + ended->name + ": " +
          (ended->code == 0 ? "val loss " + loss_of(run)
                            : run.status + ", exit code " + std::to_string(ended->code)));
      if (ended->code != 0 && !stopping) say(ended->errors);
      if (code == 0) code = ended->code;
    }
    progress.update(done, std::to_string(trainers.running()) + " running");
  }
  return stop_signal() != 0 ? 128 + stop_signal() : code;
}

/// The settings of a sweep with the losses of their complete runs, the best first.
std::vector<SweepResult> results_of(const Plan& plan, const std::vector<ListedRun>& runs) {
  std::vector<SweepResult> results;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SweepRun& planned = plan.runs[i];
    if (results.empty() || results.back().setting != planned.setting)
      results.push_back({planned.setting, planned.values, {}, 0});
    ++results.back().runs;
    const auto& summary = runs[i].summary;
    if (runs[i].status == "completed" && summary && summary->best)
      results.back().losses.push_back(summary->best->loss);
  }
  sort_results(results);
  return results;
}

/// A column for each field that has several values.
std::string table_of(const Plan& plan, const std::vector<SweepResult>& results, const Terminal& terminal) {
  Table table;
  const std::vector<std::string> names = axis_names(plan.axes);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (plan.axes[i].values.size() > 1) table.columns.push_back({names[i], false});
  const bool single = table.columns.empty();
  if (single) table.columns.push_back({"setting", false});
  table.columns.insert(table.columns.end(),
                       {{"complete", true}, {"val loss", true}, {"min", true}, {"max", true}});
  for (const SweepResult& result : results) {
    std::vector<std::string> row;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (plan.axes[i].values.size() > 1) row.push_back(result.values[i]);
    if (single) row.push_back(result.setting.empty() ? "(the config)" : result.setting);
    row.push_back(std::to_string(result.losses.size()) + "/" + std::to_string(result.runs));
    if (result.losses.empty()) {
      row.insert(row.end(), {"-", "-", "-"});
    } else {
      const auto [low, high] = std::minmax_element(result.losses.begin(), result.losses.end());
      row.insert(row.end(), {fixed(result.mean(), 4), fixed(*low, 4), fixed(*high, 4)});
    }
    table.rows.push_back(std::move(row));
  }
  return draw(table, terminal.tty ? terminal.width : 0, !terminal.utf8);
}

nlohmann::ordered_json json_of(const Plan& plan, const std::vector<ListedRun>& runs,
                               const std::vector<SweepResult>& results) {
  using Json = nlohmann::ordered_json;
  Json settings = Json::array(), all = Json::array();
  for (const SweepResult& result : results)
    settings.push_back({{"setting", result.setting},
                        {"runs", result.runs},
                        {"mean_best_val", result.losses.empty() ? Json() : Json(result.mean())},
                        {"best_val", result.losses}});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Json run = run_json(runs[i]);
    run["set"] = plan.runs[i].sets;
    all.push_back(std::move(run));
  }
  return {{"settings", std::move(settings)}, {"runs", std::move(all)}};
}

/// One page of all runs that have begun, grouped and compared there.
void write_page(Files& files, const Plan& plan, const std::vector<ListedRun>& runs) {
  std::vector<std::string> begun;
  for (const ListedRun& run : runs)
    if (run.summary && !std::isnan(run.summary->started)) begun.push_back(run.path.string());
  if (begun.empty()) return;
  const fs::path page = plan.directory / report_name;
  write_report(files, page, read_report_runs(files, begun));
  say("report:  " + shell_word(page.string()));
}

int sweep(SweepOptions options) {
  if (options.files.empty()) options.files = {default_config()};
  Files files;
  const Plan plan = plan_of(options);
  check_runs(files, options, plan);
  fs::create_directories(plan.directory);
  say(grouped(static_cast<std::int64_t>(plan.runs.size())) +
      (plan.runs.size() == 1 ? " run in " : " runs in ") + plan.directory.string() +
      (plan.threads > 0
           ? ", " + std::to_string(options.jobs) + " at a time on " + std::to_string(plan.threads) +
                 (plan.threads == 1 ? " thread each" : " threads each")
           : ""));
  if (inspect_terminal(STDERR_FILENO).live) announce_stops("\nthe runs stop when they have saved\n");
  const SignalGuard signals;
  const int code = train_all(files, options, plan);
  if (code >= 128) {
    say("stopped; the same command goes on from here");
    return code;
  }
  std::vector<ListedRun> runs;
  for (const SweepRun& run : plan.runs) runs.push_back(look_at_run(files, plan.directory / run.name));
  const std::vector<SweepResult> results = results_of(plan, runs);
  if (options.json) {
    write_json(json_of(plan, runs, results));
  } else {
    write_out(table_of(plan, results, inspect_terminal(STDOUT_FILENO)));
  }
  write_page(files, plan, runs);
  return code;
}

}  // namespace

void add_sweep(CLI::App& app) {
  const auto options = std::make_shared<SweepOptions>();
  CLI::App* command =
      add_command(app, "sweep", "Train every combination of some values, with several seeds each",
                  {"quern sweep --config configs/tiny.json --grid optim.learning_rate=1e-2,3e-3 --seeds 3",
                   "quern sweep --grid model.d_model=64,128 --grid model.n_layers=2,4 --jobs 2",
                   "quern sweep --config my.json --seeds 5 --dir runs/noise --json"},
                  [options] { return sweep(*options); });
  add_config_options(*command, *options);
  command->add_option("--grid", options->grid, "A field and its values; several make every combination")
      ->type_name("KEY=A,B")
      ->allow_extra_args(false);
  add_number(*command, "--seeds", options->seeds, between(1, 1000),
             "Runs of each setting, with run.seed 1 to N (default: one, with the config's seed)");
  add_number(*command, "--jobs", options->jobs, between(1, 1024),
             "Runs at a time; the threads are shared out among them");
  add_text(*command, "--dir", options->directory, "DIR",
           "Where the runs lie (default: runs/<name>-sweep); what is complete there is not trained again");
  command->add_flag("--json", options->json, "Print one JSON object instead of the table");
}

}  // namespace quern::cli
