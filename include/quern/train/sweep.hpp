// Many runs of one config: the combinations of some values, each with some seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern {

/// A field and the values it takes, as --set takes them.
struct SweepAxis {
  std::string path;
  std::vector<std::string> values;
};

/// "optim.learning_rate=1e-3,3e-4". Commas inside of [], {} and "" belong to a value. Throws Error(config)
/// for a text without values, an empty value and one that stands twice.
SweepAxis sweep_axis(const std::string& text);

struct SweepRun {
  std::string name;                 // of its directory: "learning_rate=1e-3,d_model=64,seed=2"
  std::string setting;              // "learning_rate=1e-3 d_model=64"; empty without an axis
  std::vector<std::string> values;  // {"1e-3", "64"}
  std::vector<std::string> sets;    // {"optim.learning_rate=1e-3", …, "run.seed=2"}
};

/// What each axis is called in names and tables: the last part of its path, or the whole where two end alike.
std::vector<std::string> axis_names(const std::vector<SweepAxis>& axes);

/// Every combination, the last axis turning fastest, with the seeds 1 to `seeds`; 0: with the config's own.
/// Names hold letters, digits and "._=,+-", each once. Throws Error(config) for an axis that stands twice,
/// for run.seed as an axis beside `seeds`, and for more than 10,000 runs.
std::vector<SweepRun> sweep_runs(const std::vector<SweepAxis>& axes, std::int64_t seeds);

/// The best validation losses of the runs of one setting.
struct SweepResult {
  std::string setting;
  std::vector<std::string> values;
  std::vector<double> losses;  // of those that have one
  std::int64_t runs = 0;       // all of them

  double mean() const;  // of losses; NaN without one
};

/// One for each setting, the lowest mean first, those without a loss last.
void sort_results(std::vector<SweepResult>& results);

}  // namespace quern
