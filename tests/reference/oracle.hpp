// Oracles that every kernel test shares: gradients by Dual numbers, the same bits on any number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "quern/base/parallel.hpp"
#include "reference/dual.hpp"

namespace quern::reference {

/// The larger error; NaN counts as infinite.
inline double worse(double worst, double error) {
  if (std::isnan(error)) return std::numeric_limits<double>::infinity();
  return std::max(worst, error);
}

inline std::vector<Dual> constants(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// d f / d x[i] for every i, where f takes a vector of Dual and returns a Dual.
template <class F>
std::vector<double> gradient(const std::vector<float>& x, F f) {
  std::vector<Dual> point = constants(x);
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    point[i].slope = 1;
    out[i] = f(point).slope;
    point[i].slope = 0;
  }
  return out;
}

/// sum of weights[i] * y[i]: a scalar whose gradient uses every output.
template <class T>
T weighted(const std::vector<float>& weights, const std::vector<T>& y) {
  T total = 0;
  for (std::size_t i = 0; i < y.size(); ++i) total += T(weights[i]) * y[i];
  return total;
}

/// Whether f(), which returns a vector, gives on these numbers of threads the bits that it gives on one.
template <class F>
bool same_on_threads(std::initializer_list<int> numbers, F f) {
  const int before = thread_count();
  set_thread_count(1);
  const auto one = f();
  bool same = true;
  for (const int threads : numbers) {
    set_thread_count(threads);
    const auto other = f();
    same = same && one.size() == other.size() &&
           std::memcmp(one.data(), other.data(), one.size() * sizeof one[0]) == 0;
  }
  set_thread_count(before);
  return same;
}

/// The same for two threads, three, and more than there are tasks.
template <class F>
bool same_on_any_threads(F f) {
  return same_on_threads({2, 3, 16}, f);
}

}  // namespace quern::reference
