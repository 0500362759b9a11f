#include "quern/watch/thin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("few rows all stay") {
  const std::vector<double> columns[] = {{3, 1, 2, not_a_number, 5}};
  CHECK(kept_rows(columns, 5) == std::vector<std::size_t>{0, 1, 2, 3, 4});
  const std::vector<double> none[] = {{}};
  CHECK(kept_rows(none, 5).empty());
  CHECK_THROWS_AS(kept_rows(columns, 4), Bug);
}

TEST_CASE("of many rows those with the extremes of every column stay, wherever they are") {
  constexpr std::size_t rows = 100'000;
  std::vector<double> columns[2] = {std::vector<double>(rows), std::vector<double>(rows)};
  for (std::size_t row = 0; row < rows; ++row) {
    columns[0][row] = std::sin(static_cast<double>(row) * 0.7) + 2;
    columns[1][row] = std::cos(static_cast<double>(row) * 1.3) + 7;
  }
  columns[0][77'777] = 100;
  columns[1][33'333] = -100;
  columns[0][55'555] = not_a_number;
  columns[1][55'556] = std::numeric_limits<double>::infinity();
  const std::vector<std::size_t> kept = kept_rows(columns, 2'000);
  CHECK(kept.size() <= 2'000);
  CHECK(kept.size() > 1'000);
  CHECK(std::is_sorted(kept.begin(), kept.end()));
  CHECK(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
  for (const std::size_t row : std::vector<std::size_t>{0, 33'333, 55'555, 55'556, 77'777, rows - 1})
    CHECK(std::binary_search(kept.begin(), kept.end(), row));
  // Wherever one looks, they reach as high as all rows do.
  for (std::size_t begin = 0; begin < rows; begin += rows / 25) {
    const std::size_t end = std::min(rows, begin + rows / 25);
    double all = 0, few = 0;
    for (std::size_t row = begin; row < end; ++row)
      if (std::isfinite(columns[0][row])) all = std::max(all, columns[0][row]);
    for (const std::size_t row : kept)
      if (row >= begin && row < end && std::isfinite(columns[0][row])) few = std::max(few, columns[0][row]);
    CHECK(few == all);
  }
}

TEST_CASE("means stand for the rows that are left out") {
  const std::vector<double> column = {1, 2, 3, not_a_number, 5, 6, not_a_number};
  const std::vector<double> means = means_between(column, std::vector<std::size_t>{0, 2, 5});
  CHECK(means == std::vector<double>{1, 2.5, 5.5});
  CHECK(std::isnan(means_between(column, std::vector<std::size_t>{5, 6})[1]));
}
