#include "quern/train/sweep.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"

namespace quern {
namespace {

constexpr std::size_t most_runs = 10'000;

std::vector<std::string> values_of(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (!quoted) depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (c == ',' && depth == 0 && !quoted) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

/// A name for a directory, unlike all in `taken`, to which it is added.
std::string directory_name(const std::string& text, std::set<std::string>& taken) {
  std::string name;
  for (const unsigned char c : text)
    name += std::isalnum(c) || std::string_view("._=,+-").find(static_cast<char>(c)) != std::string_view::npos
                ? static_cast<char>(c)
                : '-';
  if (name.size() > 150) name.resize(150);
  std::string unique = name;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = name + "-" + std::to_string(i);
  return unique;
}

void check_axes(const std::vector<SweepAxis>& axes, std::int64_t seeds) {
  std::set<std::string> paths;
  std::size_t runs = static_cast<std::size_t>(std::max<std::int64_t>(1, seeds));
  for (const SweepAxis& axis : axes) {
    if (!paths.insert(axis.path).second)
      throw Error(ErrorKind::config, "--grid: " + in_quotes(axis.path) + " stands twice",
                  "give all its values once: --grid " + axis.path + "=A,B,C");
    if (axis.path == "run.seed" && seeds > 0)
      throw Error(ErrorKind::config, "--grid run.seed and --seeds say the same twice",
                  "leave one of them out");
    runs *= axis.values.size();
    if (runs > most_runs)
      throw Error(ErrorKind::config, "a sweep has at most " + std::to_string(most_runs) + " runs",
                  "fewer values, or fewer fields");
  }
}

}  // namespace

SweepAxis sweep_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    throw Error(ErrorKind::config, "--grid " + in_quotes(text) + " names no values",
                "--grid KEY=VALUE,VALUE, as in --grid optim.learning_rate=1e-3,3e-4");
  SweepAxis axis{text.substr(0, equals), values_of(text.substr(equals + 1))};
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty())
      throw Error(ErrorKind::config, "--grid " + in_quotes(text) + " has an empty value",
                  "values are parted by single commas, without blanks");
    if (!seen.insert(value).second)
      throw Error(ErrorKind::config, "--grid " + in_quotes(text) + " names " + in_quotes(value) + " twice",
                  "name each value once; --seeds N repeats a setting");
  }
  return axis;
}

std::vector<std::string> axis_names(const std::vector<SweepAxis>& axes) {
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::vector<std::string> names;
  for (const SweepAxis& axis : axes) {
    const auto alike = [&](const SweepAxis& other) { return last(other.path) == last(axis.path); };
    names.push_back(std::count_if(axes.begin(), axes.end(), alike) > 1 ? axis.path : last(axis.path));
  }
  return names;
}

std::vector<SweepRun> sweep_runs(const std::vector<SweepAxis>& axes, std::int64_t seeds) {
  check_axes(axes, seeds);
  std::vector<SweepRun> settings(1);
  const std::vector<std::string> names = axis_names(axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const SweepAxis& axis = axes[i];
    std::vector<SweepRun> longer;
    for (const SweepRun& before : settings)
      for (const std::string& value : axis.values) {
        SweepRun run = before;
        run.setting += (run.setting.empty() ? "" : " ") + names[i] + "=" + value;
        run.values.push_back(value);
        run.sets.push_back(axis.path + "=" + value);
        longer.push_back(std::move(run));
      }
    settings = std::move(longer);
  }
  std::vector<SweepRun> runs;
  std::set<std::string> taken;
  for (const SweepRun& setting : settings) {
    std::string name = setting.setting;
    std::replace(name.begin(), name.end(), ' ', ',');
    for (std::int64_t seed = std::min<std::int64_t>(1, seeds); seed <= seeds; ++seed) {
      SweepRun run = setting;
      if (seed > 0) run.sets.push_back("run.seed=" + std::to_string(seed));
      const std::string part = seed > 0 ? "seed=" + std::to_string(seed) : name.empty() ? "run" : "";
      run.name = directory_name(name + (name.empty() || part.empty() ? "" : ",") + part, taken);
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

double SweepResult::mean() const {
  if (losses.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

void sort_results(std::vector<SweepResult>& results) {
  std::stable_sort(results.begin(), results.end(), [](const SweepResult& a, const SweepResult& b) {
    if (a.losses.empty() || b.losses.empty()) return !a.losses.empty() && b.losses.empty();
    return a.mean() < b.mean();
  });
}

}  // namespace quern
