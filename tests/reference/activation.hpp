#pragma once

#include <cmath>
#include <vector>

#include "quern/kernels/activation.hpp"
#include "reference/dual.hpp"

namespace quern::reference {

inline double erfc(double x) { return std::erfc(x); }
inline Dual erfc(Dual x) {
  return {std::erfc(x.value), -2 / std::sqrt(M_PI) * std::exp(-x.value * x.value) * x.slope};
}

template <class T>
T activation(T x, Activation kind) {
  using std::exp;
  switch (kind) {
    case Activation::gelu: {
      const T u = T(std::sqrt(2 / M_PI)) * (x + T(0.044715) * x * x * x);
      return x / (T(1) + exp(T(-2) * u));
    }
    case Activation::gelu_erf: return x * T(0.5) * erfc(-x * T(std::sqrt(0.5)));
    case Activation::relu: return plain(x) > 0 ? x : T(0);
    case Activation::relu2: return plain(x) > 0 ? x * x : T(0);
    case Activation::silu: return x / (T(1) + exp(-x));
    default: return x;
  }
}

/// The hidden row of a gated activation: pre holds the gate, then the value.
template <class T>
T gated(T gate, T value, Activation kind) {
  return activation(gate, kind == Activation::swiglu ? Activation::silu : Activation::gelu) * value;
}

/// (R,F) from (R,F), or (R,2F) when gated.
template <class T>
std::vector<T> hidden(const std::vector<T>& pre, std::size_t width, Activation kind) {
  std::vector<T> y;
  if (!is_gated(kind)) {
    for (const T& x : pre) y.push_back(activation(x, kind));
    return y;
  }
  for (std::size_t r = 0; r < pre.size(); r += 2 * width)
    for (std::size_t f = 0; f < width; ++f) y.push_back(gated(pre[r + f], pre[r + width + f], kind));
  return y;
}

}  // namespace quern::reference
