#include "quern/train/run_list.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/train/load.hpp"
#include "quern/train/run_directory.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetricsName = "metrics.jsonl";

/// The error in a line; of several mistakes in a config the first, and how many more.
std::string in_short(const Error& error) {
  const auto* mistakes = dynamic_cast<const ConfigErrors*>(&error);
  if (mistakes == nullptr) return one_line(error);
  const ConfigErrors::Item& first = mistakes->items.front();
  const std::size_t more = mistakes->items.size() - 1;
  return one_line(Error(error.kind, first.what, {}, first.place)) +
         (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

/// What the path leads to, whatever links are on the way.
fs::path target_of(const fs::path& path) {
  std::error_code ignored;
  return without_slash(fs::weakly_canonical(path, ignored));
}

void read_metrics_of(ListedRun& run, Files& files) {
  bool busy = in_use(files, run.path);
  const fs::path path = run.path / kMetricsName;
  const Metrics metrics = files.kind(path) == EntryKind::missing ? Metrics{} : read_metrics(path.string());
  // Without an end it may have started after the first look.
  if (!metrics.end && !busy) busy = in_use(files, run.path);
  run.status = status_of(metrics, busy);
  run.summary = summarise(metrics);
}

bool looks_like_run(const Files& files, const fs::path& directory) {
  return directory_state(files, directory) == DirectoryState::run ||
         files.kind(directory / kMetricsName) == EntryKind::file;
}

void require_folder(const Files& files, const fs::path& folder) {
  const DirectoryState state = directory_state(files, folder);
  std::error_code ignored;
  if (state == DirectoryState::missing) {
    throw Error(ErrorKind::run, "there is no such folder",
                "name the folder that holds the runs; `quern train` makes runs/ when it first starts",
                folder.string());
  }
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorKind::run, "is a file where a folder of runs is needed", "name the folder of the runs",
                folder.string());
  }
  if (state == DirectoryState::run) {
    throw Error(ErrorKind::run, "this is a run, not a folder of runs",
                "name the folder it lies in; `quern inspect` describes one run", folder.string());
  }
}

/// What sort_runs compares, the smallest first; NaN where it is not known.
double key_of(const ListedRun& run, RunOrder order) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (!run.summary) return unknown;
  const RunSummary& summary = *run.summary;
  switch (order) {
    case RunOrder::loss: return summary.best ? summary.best->loss : unknown;
    case RunOrder::duration: return -summary.seconds;
    case RunOrder::parameters:
      return summary.parameters ? -static_cast<double>(*summary.parameters) : unknown;
    case RunOrder::time: return -summary.started;
    case RunOrder::name: break;
  }
  return unknown;
}

}  // namespace

ListedRun look_at_run(Files& files, const fs::path& directory) {
  ListedRun run{target_of(directory).filename().string(), directory, "damaged", {}, {}, {}};
  const auto attempt = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      run.problems.push_back(in_short(error));
    }
  };
  attempt([&] { read_metrics_of(run, files); });
  attempt([&] { run.config = stored_config(files, directory); });
  return run;
}

std::vector<fs::path> run_directories(Files& files, const fs::path& folder,
                                      std::vector<std::string>* warnings) {
  require_folder(files, folder);
  std::vector<DirectoryEntry> entries = files.list(folder);
  // Links last, so that a run has the name of its directory.
  std::stable_partition(entries.begin(), entries.end(),
                        [](const DirectoryEntry& entry) { return entry.kind != EntryKind::symlink; });
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::set<fs::path> seen;
  for (const DirectoryEntry& entry : entries) {
    const fs::path path = folder / entry.name;
    try {
      if (!looks_like_run(files, path) || !seen.insert(target_of(path)).second) continue;
      std::error_code unknown;  // then it is the oldest
      found.emplace_back(fs::last_write_time(path / kMetricsName, unknown), path);
    } catch (const Error& error) {
      if (warnings != nullptr) warnings->push_back("passed over " + path.string() + ": " + in_short(error));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<fs::path> paths;
  for (const auto& [time, path] : found) paths.push_back(path);
  return paths;
}

RunList list_runs(Files& files, const fs::path& folder) {
  RunList list;
  std::vector<fs::path> paths = run_directories(files, folder, &list.warnings);
  std::sort(paths.begin(), paths.end());
  for (const DirectoryEntry& entry : files.list(folder)) {
    const fs::path path = folder / entry.name;
    if (entry.kind != EntryKind::directory || std::binary_search(paths.begin(), paths.end(), path)) continue;
    try {
      if (const std::size_t held = run_directories(files, path).size(); held > 0)
        list.folders.emplace_back(path, held);
    } catch (const Error&) {  // what may not be looked into was told of
    }
  }
  std::sort(list.folders.begin(), list.folders.end());
  for (const fs::path& path : paths) {
    ListedRun& run = list.runs.emplace_back(look_at_run(files, path));
    run.name = path.filename().string();
    for (const std::string& problem : run.problems)
      list.warnings.push_back("the run " + run.name + " is damaged: " + problem);
  }
  return list;
}

std::optional<RunOrder> run_order_named(std::string_view name) {
  if (name == "loss") return RunOrder::loss;
  if (name == "duration") return RunOrder::duration;
  if (name == "parameters") return RunOrder::parameters;
  if (name == "time") return RunOrder::time;
  if (name == "name") return RunOrder::name;
  return std::nullopt;
}

void sort_runs(std::vector<ListedRun>& runs, RunOrder order) {
  std::stable_sort(runs.begin(), runs.end(), [order](const ListedRun& a, const ListedRun& b) {
    if (order == RunOrder::name) return a.name < b.name;
    const double x = key_of(a, order), y = key_of(b, order);
    return std::isnan(x) || std::isnan(y) ? !std::isnan(x) && std::isnan(y) : x < y;
  });
}

}  // namespace quern
