// Few points that stand for many.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace quern {

/// Which of a table's rows show what all of them would: the rows are parted into stretches of equal length,
/// and of each stretch every column keeps its smallest and its largest value and the first one that is not
/// finite; the first and the last row stay too. Rising; all rows when there are no more than `most`, else at
/// most that many. The columns are equally long; `most` is at least 3 times their number, and 2.
std::vector<std::size_t> kept_rows(std::span<const std::vector<double>> columns, std::size_t most);

/// The mean over the rows behind the kept row before, up to each kept row; values that are not finite are
/// left out, and a mean of none is NaN.
std::vector<double> means_between(const std::vector<double>& column, std::span<const std::size_t> kept);

}  // namespace quern
