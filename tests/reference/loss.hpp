#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/dual.hpp"

namespace quern::reference {

template <class T>
struct CrossEntropy {
  T nll = 0, smoothed = 0;
  std::int64_t targets = 0;
};

/// Sums over the rows whose target is not negative; logits (R,V).
template <class T>
CrossEntropy<T> cross_entropy(const std::vector<T>& logits, const std::vector<std::int32_t>& targets,
                              double smoothing) {
  using std::exp;
  using std::log;
  const std::size_t cols = logits.size() / targets.size();
  CrossEntropy<T> out;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) continue;
    const T* x = &logits[r * cols];
    double top = plain(x[0]);
    for (std::size_t c = 1; c < cols; ++c) top = std::max(top, plain(x[c]));
    T sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += exp(x[c] - T(top));
    const T lse = log(sum) + T(top);
    for (std::size_t c = 0; c < cols; ++c) {
      const bool hit = static_cast<std::int32_t>(c) == targets[r];
      const double q = (hit ? 1 - smoothing : 0) + smoothing / double(cols);
      if (q > 0) out.smoothed += T(q) * (lse - x[c]);
      if (hit) out.nll += lse - x[c];
    }
    ++out.targets;
  }
  return out;
}

}  // namespace quern::reference
