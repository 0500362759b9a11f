#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/dual.hpp"

namespace quern::reference {

/// Heads of D numbers, one after the other: row r of x holds `heads` of them and stands at position first + r
/// % length. theta 0: not turned; an empty gain: not normalised.
template <class T>
std::vector<T> rotary(const std::vector<T>& x, const std::vector<T>& gain, std::size_t D, std::size_t heads,
                      std::size_t length, std::size_t first, double theta, double eps) {
  using std::sqrt;
  std::vector<T> y = x;
  for (std::size_t begin = 0; begin < x.size(); begin += D) {
    if (!gain.empty()) {
      T squares = 0;
      for (std::size_t i = 0; i < D; ++i) squares += x[begin + i] * x[begin + i];
      const T rstd = T(1) / sqrt(squares / T(double(D)) + T(eps));
      for (std::size_t i = 0; i < D; ++i) y[begin + i] = x[begin + i] * rstd * gain[i];
    }
    if (theta == 0) continue;
    const std::size_t position = first + begin / D / heads % length;
    for (std::size_t i = 0; i < D / 2; ++i) {
      const double angle = double(position) * std::pow(theta, -2.0 * double(i) / double(D));
      const T c = std::cos(angle), s = std::sin(angle), a = y[begin + i], b = y[begin + D / 2 + i];
      y[begin + i] = a * c - b * s;
      y[begin + D / 2 + i] = b * c + a * s;
    }
  }
  return y;
}

}  // namespace quern::reference
