// What every kernel test needs: reproducible numbers, comparison with a derived tolerance, poisoned buffers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "quern/base/rng.hpp"

namespace quern::reference {

/// n numbers, normal with the given deviation, a pure function of `seed`.
inline std::vector<float> normal(std::int64_t n, std::uint64_t seed, double deviation = 1) {
  std::vector<float> out(static_cast<std::size_t>(n));
  const RandomStream stream(seed, site_hash("tests"), 0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto r = stream.at(i, 0);
    const double u = (r[0] + 0.5) * 0x1p-32, v = r[1] * 0x1p-32;
    out[i] = static_cast<float>(deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
  }
  return out;
}

/// n NaNs: a destination that beta = 0 must overwrite without reading.
inline std::vector<float> poison(std::int64_t n) {
  return std::vector<float>(static_cast<std::size_t>(n), std::numeric_limits<float>::quiet_NaN());
}

/// The largest |actual - wanted| over max(|wanted|_inf, floor): the error relative to the tensor's own scale.
/// A NaN in either counts as infinite.
template <class A, class W>
double relative_error(const A& actual, const W& wanted, double floor = 1e-30) {
  double scale = floor, worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) scale = std::max(scale, std::abs(double(wanted[i])));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(double(actual[i]) - double(wanted[i]));
    if (!(error < std::numeric_limits<double>::infinity())) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  return worst / scale;
}

inline std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace quern::reference
