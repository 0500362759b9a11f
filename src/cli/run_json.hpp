#pragma once

#include <nlohmann/json_fwd.hpp>

#include "quern/train/run_list.hpp"

namespace quern::cli {

/// A run as `runs` and `inspect` print it: name, path, status, step, max_steps, best_val {loss, step},
/// train_loss, parameters, tokens, seconds, started, problems. What is not known is null.
nlohmann::ordered_json run_json(const ListedRun& run);

}  // namespace quern::cli
