#pragma once

#include <cmath>

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
  }
  return x;
}

}  // namespace quern::reference
