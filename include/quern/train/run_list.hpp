// The runs of a folder. Looking at them disturbs no trainer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/train/config.hpp"
#include "quern/watch/run_summary.hpp"

namespace quern {

struct ListedRun {
  std::string name;  // of its directory
  std::filesystem::path path;
  std::string status;                 // see status_of; "damaged" when the metrics cannot be read
  std::optional<RunSummary> summary;  // nothing when the metrics cannot be read
  std::optional<Config> config;       // as it stands in the run; nothing when it cannot be read
  std::vector<std::string> problems;  // what cannot be read, why, and where
};

/// The run in `directory`; damage is no error. A run that was stopped before its first line of metrics has an
/// empty summary.
ListedRun look_at_run(Files& files, const std::filesystem::path& directory);

/// The directories directly in `folder` that hold a run's config or metrics, those whose metrics were written
/// last first; nothing in them is read. A run that several names lead to (the link `latest`) stands once,
/// under its directory's own name where that lies in `folder`. `warnings` are told of what cannot be looked
/// into. ErrorKind::run when `folder` is missing, no directory or itself a run.
std::vector<std::filesystem::path> run_directories(Files& files, const std::filesystem::path& folder,
                                                   std::vector<std::string>* warnings = nullptr);

struct RunList {
  std::vector<ListedRun> runs;                                         // by name
  std::vector<std::pair<std::filesystem::path, std::size_t>> folders;  // those in it that hold runs, how many
  std::vector<std::string> warnings;  // what is damaged, and each directory that cannot be looked into
};

/// The runs of run_directories, looked at.
RunList list_runs(Files& files, const std::filesystem::path& folder);

/// loss: lowest validation loss first; duration, parameters: largest first; time: newest first; name: by the
/// bytes of the names.
enum class RunOrder { loss, duration, parameters, time, name };

/// "loss", "duration", …; anything else is nothing.
std::optional<RunOrder> run_order_named(std::string_view name);

/// Sorts; runs of which the figure is not known come last, equal ones stay in their order.
void sort_runs(std::vector<ListedRun>& runs, RunOrder order);

}  // namespace quern
