#pragma once

#include <cmath>

#include "quern/kernels/adamw.hpp"

namespace quern::reference {

/// One weight, as the paper's algorithm 2 with PyTorch's eps.
template <class T>
void adamw(T& w, T g, T& m, T& v, const AdamW& a) {
  const T beta1 = a.beta1, beta2 = a.beta2, lr = a.learning_rate;
  g = g * T(a.gradient_scale);
  m = beta1 * m + (1 - beta1) * g;
  v = beta2 * v + (1 - beta2) * g * g;
  const T m_hat = m / (1 - std::pow(beta1, T(a.step)));
  const T v_hat = v / (1 - std::pow(beta2, T(a.step)));
  w = w - lr * T(a.weight_decay) * w - lr * m_hat / (std::sqrt(v_hat) + T(a.eps));
}

}  // namespace quern::reference
