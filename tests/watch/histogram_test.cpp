#include "quern/watch/histogram.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "catch.hpp"

using namespace quern;

TEST_CASE("a histogram counts each finite number once, in the bucket whose limits hold it") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers;
  for (int i = 0; i < 5'000; ++i) numbers.push_back(normal(random));
  numbers.push_back(std::numeric_limits<float>::infinity());
  numbers.push_back(std::numeric_limits<float>::quiet_NaN());
  const Histogram found = histogram_of(numbers, 30);
  CHECK(found.count == 5'000);
  CHECK(found.nonfinite == 2);
  REQUIRE(found.limits.size() == 30);
  CHECK(std::accumulate(found.counts.begin(), found.counts.end(), std::int64_t{0}) == 5'000);
  double sum = 0, squares = 0;
  std::vector<std::int64_t> wanted(30, 0);
  for (const float x : numbers) {
    if (!std::isfinite(x)) continue;
    sum += x, squares += double(x) * x;
    std::size_t i = 0;
    while (x > found.limits[i]) ++i;
    ++wanted[i];
  }
  CHECK(found.counts == wanted);
  CHECK(found.sum == sum);
  CHECK(found.sum_squares == squares);
  CHECK(found.limits.back() == found.max);
  CHECK(found.min < found.limits.front());
}

TEST_CASE("histograms of nothing, of one value and of the widest range") {
  CHECK(histogram_of({}).limits.empty());
  const float nan[] = {std::nanf("")};
  CHECK(histogram_of(nan).nonfinite == 1);
  CHECK(histogram_of(nan).limits.empty());
  const float same[] = {2.5F, 2.5F, 2.5F};
  CHECK(histogram_of(same).limits == std::vector<double>{2.5});
  CHECK(histogram_of(same).counts == std::vector<std::int64_t>{3});
  constexpr float most = std::numeric_limits<float>::max();
  const float wide[] = {-most, 0, most, std::numeric_limits<float>::denorm_min()};
  const Histogram found = histogram_of(wide, 2);
  CHECK(found.counts == std::vector<std::int64_t>{2, 2});
}
