// How the numbers of a tensor are distributed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

/// The finite ones of some numbers in `limits.size()` buckets of equal width over [min, max]: bucket i holds
/// those above limits[i-1] and up to limits[i], its upper end. All equal: one bucket. None finite: no bucket.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::int64_t count = 0, nonfinite = 0;
  std::vector<double> limits;
  std::vector<std::int64_t> counts;
};

Histogram histogram_of(std::span<const float> numbers, int buckets = 30);

}  // namespace quern
