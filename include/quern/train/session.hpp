// From a command line to a finished run: what is trained, where, and from which step on.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/data/dataset.hpp"
#include "quern/train/config.hpp"
#include "quern/watch/events.hpp"

namespace quern {

struct TrainRequest {
  std::vector<std::string> config_files, sets;
  std::filesystem::path run_dir;  // empty: a new name below runs/
  std::string resume;             // empty: a new run; "auto", a run's directory, or one of its checkpoints
  bool overwrite = false;
  std::string commit;            // of this program, for env.json
  ReadingProgress reading = {};  // of the corpus
};

struct TrainOutcome {
  int exit_code = 0;  // 0, or 128 + a signal
  std::filesystem::path run_dir;
};

/// Adds observers once a run's config and directory are known.
using Watch = std::function<void(Observers&, const Config&, const std::filesystem::path&)>;

/// Trains as the request says, with the observers that `watch` adds, if any, beside the run's metrics. Errors
/// before the first step leave nothing behind; later ones leave the run resumable.
///   new run:  config (2), corpus (3), memory (6), the directory (4, 7), then training.
///   resume:   the run's own config with those changes that a resume allows (7 otherwise), its tokenizer, the
///             same corpus (7), the newest intact checkpoint, or the named one (3).
TrainOutcome train(Files& files, const TrainRequest& request, const Watch& watch = {});

/// The config with which the request goes on with a run of config `run`. Throws Error(run) with the
/// difference where a resume may not make it.
Config resumed_config(const TrainRequest& request, const Config& run);

/// What a new run of these would train with: its config, vocabulary stated, and its corpus. Sets the threads
/// of this process as the run would.
struct RunPlan {
  Config config;
  Dataset data;
};
RunPlan plan_run(const std::vector<std::string>& config_files, const std::vector<std::string>& sets,
                 const ReadingProgress& reading = {});

/// The threads that run.threads = 0 stands for: OMP_NUM_THREADS when set, else every core this process may
/// use.
int default_threads();

}  // namespace quern
