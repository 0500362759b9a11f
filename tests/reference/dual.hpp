// Exact forward-mode derivatives: a Dual carries a value and its derivative along one direction, so that a
// gradient check needs no step size and its tolerance is the rounding of the kernel under test.
#pragma once

#include <cmath>

namespace quern::reference {

struct Dual {
  double value = 0, slope = 0;

  Dual() = default;
  Dual(double v, double s = 0) : value(v), slope(s) {}  // NOLINT: a number is a constant Dual
};

inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator-(Dual a) { return {-a.value, -a.slope}; }
inline Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
inline Dual operator/(Dual a, Dual b) {
  return {a.value / b.value, (a.slope * b.value - a.value * b.slope) / (b.value * b.value)};
}
inline Dual& operator+=(Dual& a, Dual b) { return a = a + b; }
inline Dual& operator-=(Dual& a, Dual b) { return a = a - b; }
inline Dual& operator*=(Dual& a, Dual b) { return a = a * b; }
inline bool operator<(Dual a, Dual b) { return a.value < b.value; }
inline bool operator>(Dual a, Dual b) { return a.value > b.value; }

inline Dual exp(Dual a) { return {std::exp(a.value), std::exp(a.value) * a.slope}; }
inline Dual log(Dual a) { return {std::log(a.value), a.slope / a.value}; }
inline Dual sqrt(Dual a) { return {std::sqrt(a.value), a.slope / (2 * std::sqrt(a.value))}; }
inline Dual tanh(Dual a) {
  const double t = std::tanh(a.value);
  return {t, (1 - t * t) * a.slope};
}
inline Dual erf(Dual a) {
  return {std::erf(a.value), 2 / std::sqrt(M_PI) * std::exp(-a.value * a.value) * a.slope};
}
inline bool isfinite(Dual a) { return std::isfinite(a.value); }

/// The plain number under T: for comparisons and for choosing a branch.
inline double plain(double a) { return a; }
inline double plain(Dual a) { return a.value; }

}  // namespace quern::reference
