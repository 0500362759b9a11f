#include "quern/watch/ticks.hpp"

#include <cmath>

#include "catch.hpp"

using namespace quern;

namespace {

std::string labels(double low, double high, int most) {
  const Ticks ticks = nice_ticks(low, high, most);
  std::string out;
  for (const double value : ticks.values) out += tick_label(value, ticks) + " ";
  return out;
}

}  // namespace

TEST_CASE("ticks of what is counted are whole numbers") {
  CHECK(nice_ticks(0, 3, 8, true).values == std::vector<double>{0, 1, 2, 3});
  CHECK(nice_ticks(0, 3, 8).values.size() == 7);
  CHECK(nice_ticks(0, 2000, 8, true).values == nice_ticks(0, 2000, 8).values);
}

TEST_CASE("ticks are multiples of 1, 2 or 5 and labelled with the digits they need") {
  CHECK(labels(0, 2000, 6) == "0 500 1000 1500 2000 ");
  CHECK(labels(1.05, 4.2, 5) == "2 3 4 ");
  CHECK(labels(1.05, 4.2, 7) == "1.5 2.0 2.5 3.0 3.5 4.0 ");
  CHECK(labels(0, 1e-3, 6) == "0 2e-4 4e-4 6e-4 8e-4 1e-3 ");
  CHECK(labels(0, 20000, 5) == "0 5k 10k 15k 20k ");
  CHECK(labels(0, 3.1e6, 4) == "0 1M 2M 3M ");
  CHECK(labels(0, 1.6e6, 4) == "0 0.5M 1.0M 1.5M ");
  CHECK(labels(-1, 1, 3) == "-1 0 1 ");
  CHECK(labels(2.299, 2.3011, 3) == "2.299 2.300 2.301 ");
  CHECK(labels(0.1, 0.9, 1) == "0.5 ");
}

TEST_CASE("ticks keep their promises over many ranges") {
  for (int exponent = -250; exponent <= 250; exponent += 25) {
    for (const double low : {-3.7, 0.0, 1.0, 123.456}) {
      for (const double span : {0.001, 1.0, 9.99, 250.0}) {
        for (const int most : {1, 2, 5, 16}) {
          const double unit = std::pow(10.0, exponent);
          const Ticks ticks = nice_ticks(low * unit, (low + span) * unit, most);
          CAPTURE(exponent, low, span, most);
          REQUIRE(ticks.values.size() <= static_cast<std::size_t>(most));
          // 5 / 2 is the largest gap between neighbours of 1, 2, 5, 10: the next finer step had too many
          // ticks.
          if (most >= 5) CHECK(static_cast<double>(ticks.values.size()) >= std::floor(most / 2.5) - 1);
          for (std::size_t i = 0; i < ticks.values.size(); ++i) {
            CHECK(ticks.values[i] >= (low - 1e-9 * span) * unit - 1e-8 * ticks.step);
            CHECK(ticks.values[i] <= (low + span + 1e-9 * span) * unit + 1e-8 * ticks.step);
            if (i > 0) CHECK(tick_label(ticks.values[i], ticks) != tick_label(ticks.values[i - 1], ticks));
          }
        }
      }
    }
  }
}
