#include "quern/watch/thin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quern/base/check.hpp"

namespace quern {

namespace {

/// Adds what one column keeps of the rows [begin, end).
void keep(const std::vector<double>& column, std::size_t begin, std::size_t end,
          std::vector<std::size_t>& kept) {
  std::size_t low = end, high = end, broken = end;
  for (std::size_t row = begin; row < end; ++row) {
    if (!std::isfinite(column[row])) {
      broken = std::min(broken, row);
    } else {
      if (low == end || column[row] < column[low]) low = row;
      if (high == end || column[row] > column[high]) high = row;
    }
  }
  for (const std::size_t row : {low, high, broken})
    if (row != end) kept.push_back(row);
}

}  // namespace

std::vector<std::size_t> kept_rows(std::span<const std::vector<double>> columns, std::size_t most) {
  QUERN_CHECK(!columns.empty() && most >= 3 * columns.size() + 2, columns.size(), most);
  const std::size_t rows = columns.front().size();
  std::vector<std::size_t> kept;
  if (rows <= most) {
    kept.resize(rows);
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    return kept;
  }
  const std::size_t stretches = (most - 2) / (3 * columns.size());
  kept = {0, rows - 1};
  for (std::size_t i = 0; i < stretches; ++i) {
    for (const std::vector<double>& column : columns)
      keep(column, rows * i / stretches, rows * (i + 1) / stretches, kept);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

std::vector<double> means_between(const std::vector<double>& column, std::span<const std::size_t> kept) {
  std::vector<double> means;
  means.reserve(kept.size());
  std::size_t row = 0;
  for (const std::size_t last : kept) {
    double sum = 0;
    std::size_t count = 0;
    for (; row <= last; ++row) {
      if (!std::isfinite(column[row])) continue;
      sum += column[row];
      ++count;
    }
    means.push_back(count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

}  // namespace quern
