#include "quern/watch/histogram.hpp"

#include <algorithm>
#include <cmath>

#include "quern/base/check.hpp"

namespace quern {

Histogram histogram_of(std::span<const float> numbers, int buckets) {
  QUERN_CHECK(buckets >= 1, buckets);
  Histogram found;
  for (const float x : numbers) {
    if (!std::isfinite(x)) continue;
    found.min = found.count == 0 ? x : std::min<double>(found.min, x);
    found.max = found.count == 0 ? x : std::max<double>(found.max, x);
    found.sum += x;
    found.sum_squares += static_cast<double>(x) * x;
    ++found.count;
  }
  found.nonfinite = static_cast<std::int64_t>(numbers.size()) - found.count;
  if (found.count == 0) return found;
  if (found.min == found.max) buckets = 1;
  const double width = (found.max - found.min) / buckets;
  for (int i = 1; i < buckets; ++i) found.limits.push_back(found.min + width * i);
  found.limits.push_back(found.max);
  found.counts.assign(found.limits.size(), 0);
  for (const float x : numbers) {
    if (!std::isfinite(x)) continue;
    // The quotient may be off by a rounding; the limits decide.
    auto i = width > 0 ? static_cast<std::size_t>((x - found.min) / width) : 0;
    i = std::min(i, found.limits.size() - 1);
    while (i > 0 && x <= found.limits[i - 1]) --i;
    while (x > found.limits[i]) ++i;
    ++found.counts[i];
  }
  return found;
}

}  // namespace quern
