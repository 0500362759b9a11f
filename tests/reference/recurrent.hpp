// Recurrent layers, slowly: kernels/recurrent.hpp's formulas, step by step, and their gradients in double,
// which are themselves held against Dual numbers. All arrays are contiguous.
#pragma once

#include <cstdint>
#include <vector>

#include "quern/kernels/recurrent.hpp"
#include "reference/affine.hpp"
#include "reference/dual.hpp"

namespace quern::reference {

template <class X>
X sigmoid(X x) {
  using std::exp;
  return X(1) / (X(1) + exp(-x));
}

/// Numbers [begin, begin + n).
template <class X>
std::vector<X> slice(const std::vector<X>& x, std::size_t begin, std::size_t n) {
  const auto from = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return {from, from + static_cast<std::ptrdiff_t>(n)};
}

/// The gates of one step, and p of the GRU's n.
template <class X>
struct Gates {
  std::vector<X> a, b, c, d;  // r, z, n, p_n, or i, f, g, o
};

template <class X>
Gates<X> gates_of(Cell cell, const std::vector<X>& x, const std::vector<X>& state, const std::vector<X>& w,
                  const std::vector<X>& bias) {
  using std::tanh;
  const std::size_t C = x.size() / static_cast<std::size_t>(gate_count(cell));
  const auto p = affine(slice(state, 0, C), w, bias, C);
  Gates<X> g;
  for (std::size_t j = 0; j < C; ++j) {
    const std::size_t at[] = {j, C + j, 2 * C + j, 3 * C + j};
    g.a.push_back(sigmoid(x[at[0]] + p[at[0]]));
    g.b.push_back(sigmoid(x[at[1]] + p[at[1]]));
    if (cell == Cell::gru) {
      g.c.push_back(tanh(x[at[2]] + g.a[j] * p[at[2]]));
      g.d.push_back(p[at[2]]);
    } else {
      g.c.push_back(tanh(x[at[2]] + p[at[2]]));
      g.d.push_back(sigmoid(x[at[3]] + p[at[3]]));
    }
  }
  return g;
}

/// The state behind a step: x (G*C), state (state_width), w (G*C,C), bias (G*C).
template <class X>
std::vector<X> recurrent_step(Cell cell, const std::vector<X>& x, const std::vector<X>& state,
                              const std::vector<X>& w, const std::vector<X>& bias) {
  using std::tanh;
  const Gates<X> g = gates_of(cell, x, state, w, bias);
  const std::size_t C = g.a.size();
  std::vector<X> next(state.size());
  for (std::size_t j = 0; j < C; ++j) {
    if (cell == Cell::gru) {
      next[j] = (X(1) - g.b[j]) * g.c[j] + g.b[j] * state[j];
    } else {
      next[C + j] = g.b[j] * state[C + j] + g.a[j] * g.c[j];
      next[j] = g.d[j] * tanh(next[C + j]);
    }
  }
  return next;
}

struct StepGradient {
  std::vector<double> dx, dp, dstate;
};

/// What `dnext` of the state behind the step is for its inputs.
inline StepGradient recurrent_step_gradient(Cell cell, const std::vector<double>& x,
                                            const std::vector<double>& state, const std::vector<double>& w,
                                            const std::vector<double>& bias,
                                            const std::vector<double>& dnext) {
  const Gates<double> g = gates_of(cell, x, state, w, bias);
  const std::size_t C = g.a.size();
  StepGradient to{std::vector<double>(x.size()), std::vector<double>(x.size()),
                  std::vector<double>(state.size())};
  for (std::size_t j = 0; j < C; ++j) {
    const double a = g.a[j], b = g.b[j], c = g.c[j], d = g.d[j], dh = dnext[j];
    if (cell == Cell::gru) {
      const double dn = dh * (1 - b) * (1 - c * c);
      to.dx[2 * C + j] = dn, to.dp[2 * C + j] = dn * a;
      to.dx[j] = to.dp[j] = dn * d * a * (1 - a);
      to.dx[C + j] = to.dp[C + j] = dh * (state[j] - c) * b * (1 - b);
      to.dstate[j] = dh * b;
    } else {
      const double t = std::tanh(b * state[C + j] + a * c), dc = dnext[C + j] + dh * d * (1 - t * t);
      to.dx[j] = dc * c * a * (1 - a);
      to.dx[C + j] = dc * state[C + j] * b * (1 - b);
      to.dx[2 * C + j] = dc * a * (1 - c * c);
      to.dx[3 * C + j] = dh * t * d * (1 - d);
      to.dstate[C + j] = dc * b;
    }
  }
  if (cell == Cell::lstm) to.dp = to.dx;
  for (std::size_t n = 0; n < to.dp.size(); ++n)
    for (std::size_t j = 0; j < C; ++j) to.dstate[j] += to.dp[n] * w[n * C + j];
  return to;
}

/// dw (N,K) += d (N) xᵀ (K).
inline void add_outer(std::vector<double>& dw, const std::vector<double>& d, const std::vector<double>& x,
                      std::size_t K) {
  for (std::size_t n = 0; n < d.size(); ++n)
    for (std::size_t k = 0; k < K; ++k) dw[n * K + k] += d[n] * x[k];
}

struct RecurrentShape {
  std::size_t B, T, C;
  Cell cell;
  std::vector<std::int32_t> lengths = {};  // empty: all are T
  bool reverse = false;

  std::size_t N() const { return static_cast<std::size_t>(gate_count(cell)) * C; }
  std::size_t state() const {
    return static_cast<std::size_t>(state_width(cell, static_cast<std::int64_t>(C)));
  }
  /// The steps of sequence b, in their order.
  std::vector<std::size_t> steps(std::size_t b) const {
    std::vector<std::size_t> order;
    for (std::size_t t = 0; t < (lengths.empty() ? T : static_cast<std::size_t>(lengths[b])); ++t)
      order.push_back(t);
    if (reverse) return {order.rbegin(), order.rend()};
    return order;
  }
};

/// The states of sequence b: before its first step, then behind each.
template <class X>
std::vector<std::vector<X>> states_of(const RecurrentShape& n, const std::vector<X>& gates,
                                      const std::vector<X>& w, const std::vector<X>& bias, std::size_t b) {
  std::vector<std::vector<X>> states = {std::vector<X>(n.state(), X(0))};
  for (const std::size_t t : n.steps(b))
    states.push_back(
        recurrent_step(n.cell, slice(gates, (b * n.T + t) * n.N(), n.N()), states.back(), w, bias));
  return states;
}

/// gates (B,T,G*C), w (G*C,C), bias (G*C) -> (B,T,C).
template <class X>
std::vector<X> recurrent(const RecurrentShape& n, const std::vector<X>& gates, const std::vector<X>& w,
                         const std::vector<X>& bias) {
  std::vector<X> out(n.B * n.T * n.C, X(0));
  for (std::size_t b = 0; b < n.B; ++b) {
    const auto states = states_of(n, gates, w, bias, b);
    const auto steps = n.steps(b);
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (std::size_t j = 0; j < n.C; ++j) out[(b * n.T + steps[i]) * n.C + j] = states[i + 1][j];
  }
  return out;
}

struct RecurrentGradients {
  std::vector<double> gates, w, bias;
};

inline RecurrentGradients recurrent_gradients(const RecurrentShape& n, const std::vector<double>& dout,
                                              const std::vector<double>& gates, const std::vector<double>& w,
                                              const std::vector<double>& bias) {
  RecurrentGradients to{std::vector<double>(gates.size()), std::vector<double>(w.size()),
                        std::vector<double>(bias.size())};
  for (std::size_t b = 0; b < n.B; ++b) {
    const auto states = states_of(n, gates, w, bias, b);
    const auto steps = n.steps(b);
    std::vector<double> dstate(n.state());
    for (std::size_t i = steps.size(); i-- > 0;) {
      const std::size_t row = b * n.T + steps[i];
      for (std::size_t j = 0; j < n.C; ++j) dstate[j] += dout[row * n.C + j];
      const StepGradient g =
          recurrent_step_gradient(n.cell, slice(gates, row * n.N(), n.N()), states[i], w, bias, dstate);
      for (std::size_t k = 0; k < n.N(); ++k) to.gates[row * n.N() + k] = g.dx[k], to.bias[k] += g.dp[k];
      add_outer(to.w, g.dp, states[i], n.C);
      dstate = g.dstate;
    }
  }
  return to;
}

}  // namespace quern::reference
