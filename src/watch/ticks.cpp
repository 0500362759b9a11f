#include "quern/watch/ticks.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "quern/base/check.hpp"
#include "quern/watch/format.hpp"

namespace quern {

namespace {

// 1e-9 of a step forgives the rounding of low / step, so that a tick exactly on an end counts.
constexpr double slack = 1e-9;

double first_multiple(double low, double step) { return std::ceil(low / step - slack); }
double last_multiple(double high, double step) { return std::floor(high / step + slack); }

}  // namespace

Ticks nice_ticks(double low, double high, int most, bool whole) {
  QUERN_CHECK(low < high && most >= 1, low, high, most);
  int exponent = static_cast<int>(std::floor(std::log10((high - low) / most))) - 1;
  if (whole) exponent = std::max(exponent, 0);
  for (;; ++exponent) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      // Dividing by a power of ten is exact to one rounding where multiplying by 1e-4 is not.
      const double power = std::pow(10.0, std::abs(exponent));
      const double step = exponent < 0 ? mantissa / power : mantissa * power;
      const double first = first_multiple(low, step), last = last_multiple(high, step);
      if (last - first + 1 > most) continue;
      Ticks ticks{step, {}};
      for (double k = first; k <= last; ++k) {
        ticks.values.push_back(exponent < 0 ? k * mantissa / power : k * step);
      }
      return ticks;
    }
  }
}

std::string tick_label(double value, const Ticks& ticks) {
  if (value == 0) return "0";
  double largest = ticks.step;
  for (const double tick : ticks.values) largest = std::max(largest, std::abs(tick));
  const auto power_of = [](double x) { return static_cast<int>(std::floor(std::log10(x) + slack)); };
  if (largest < 0.01 || largest >= 1e15) {
    return scientific(value, std::max(1, power_of(std::abs(value)) - power_of(ticks.step) + 1));
  }
  static constexpr std::array<const char*, 5> suffixes = {"", "k", "M", "G", "T"};
  const int power = largest < 10000 ? 0 : power_of(largest) / 3;
  const double unit = std::pow(10.0, 3 * power);
  return fixed(value / unit, std::max(0, -power_of(ticks.step / unit))) +
         suffixes[static_cast<std::size_t>(power)];
}

}  // namespace quern
