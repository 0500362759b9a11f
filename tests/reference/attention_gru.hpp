// The decoder of Bahdanau et al. 2014, slowly: kernels/attention_gru.hpp's formulas, step by step, and their
// gradients in double, which are themselves held against Dual numbers. All arrays are contiguous.
#pragma once

#include "reference/recurrent.hpp"

namespace quern::reference {

struct AttentionGruShape {
  std::size_t B, T, C, S, A, M;
  std::vector<std::int32_t> lengths = {};  // empty: all are S

  std::size_t keys(std::size_t b) const { return lengths.empty() ? S : static_cast<std::size_t>(lengths[b]); }
};

/// The operation's inputs, or their gradients, in its order: gates, keys, memory, start (may be empty),
/// w_query, v, w_context, w_hidden, b_hidden.
template <class X>
struct AttentionGruNumbers {
  std::vector<X> gates, keys, memory, start, w_query, v, w_context, w_hidden, b_hidden;

  std::vector<std::vector<X>*> all() {
    return {&gates, &keys, &memory, &start, &w_query, &v, &w_context, &w_hidden, &b_hidden};
  }
};

template <class X>
struct AttentionGruStep {
  std::vector<X> before, weights, context, x, next;  // s(t-1), a, c, the GRU's x, s(t)
};

template <class X>
AttentionGruStep<X> attention_gru_step(const AttentionGruShape& n, const AttentionGruNumbers<X>& in,
                                       const std::vector<X>& before, std::size_t b, std::size_t t) {
  using std::exp, std::tanh;
  AttentionGruStep<X> step{before, {}, std::vector<X>(n.M, X(0)), {}, {}};
  const auto q = affine(before, in.w_query, {}, n.C);
  X total = 0;
  for (std::size_t s = 0; s < n.keys(b); ++s) {
    X score = 0;
    for (std::size_t a = 0; a < n.A; ++a) score += in.v[a] * tanh(q[a] + in.keys[(b * n.S + s) * n.A + a]);
    step.weights.push_back(exp(score));
    total += step.weights.back();
  }
  for (std::size_t s = 0; s < n.keys(b); ++s) {
    step.weights[s] = step.weights[s] / total;
    for (std::size_t m = 0; m < n.M; ++m)
      step.context[m] += step.weights[s] * in.memory[(b * n.S + s) * n.M + m];
  }
  step.x = affine(step.context, in.w_context, slice(in.gates, (b * n.T + t) * 3 * n.C, 3 * n.C), n.M);
  step.next = recurrent_step(Cell::gru, step.x, before, in.w_hidden, in.b_hidden);
  return step;
}

template <class X>
std::vector<AttentionGruStep<X>> attention_gru_steps(const AttentionGruShape& n,
                                                     const AttentionGruNumbers<X>& in, std::size_t b) {
  std::vector<AttentionGruStep<X>> steps;
  std::vector<X> state = in.start.empty() ? std::vector<X>(n.C, X(0)) : slice(in.start, b * n.C, n.C);
  for (std::size_t t = 0; t < n.T; ++t) {
    steps.push_back(attention_gru_step(n, in, state, b, t));
    state = steps.back().next;
  }
  return steps;
}

template <class X>
struct AttentionGruResults {
  std::vector<X> out, contexts, weights;  // (B,T,C), (B,T,M), (B,T,S)
};

template <class X>
AttentionGruResults<X> attention_gru(const AttentionGruShape& n, const AttentionGruNumbers<X>& in) {
  AttentionGruResults<X> to;
  for (std::size_t b = 0; b < n.B; ++b)
    for (AttentionGruStep<X>& step : attention_gru_steps(n, in, b)) {
      step.weights.resize(n.S, X(0));
      to.out.insert(to.out.end(), step.next.begin(), step.next.end());
      to.contexts.insert(to.contexts.end(), step.context.begin(), step.context.end());
      to.weights.insert(to.weights.end(), step.weights.begin(), step.weights.end());
    }
  return to;
}

/// The attention's part of one step: from dcontext to dstate of the state that asked.
inline void add_read_gradient(const AttentionGruShape& n, const AttentionGruNumbers<double>& in,
                              const AttentionGruStep<double>& step, const std::vector<double>& dcontext,
                              std::size_t b, AttentionGruNumbers<double>& to, std::vector<double>& dstate) {
  const auto q = affine(step.before, in.w_query, {}, n.C);
  std::vector<double> dq(n.A);
  double delta = 0;
  for (std::size_t m = 0; m < n.M; ++m) delta += dcontext[m] * step.context[m];
  for (std::size_t s = 0; s < n.keys(b); ++s) {
    double dscore = -delta;
    for (std::size_t m = 0; m < n.M; ++m) {
      dscore += dcontext[m] * in.memory[(b * n.S + s) * n.M + m];
      to.memory[(b * n.S + s) * n.M + m] += step.weights[s] * dcontext[m];
    }
    dscore *= step.weights[s];
    for (std::size_t a = 0; a < n.A; ++a) {
      const std::size_t key = (b * n.S + s) * n.A + a;
      const double hidden = std::tanh(q[a] + in.keys[key]);
      const double through = dscore * in.v[a] * (1 - hidden * hidden);
      dq[a] += through, to.keys[key] += through, to.v[a] += dscore * hidden;
    }
  }
  add_outer(to.w_query, dq, step.before, n.C);
  for (std::size_t a = 0; a < n.A; ++a)
    for (std::size_t c = 0; c < n.C; ++c) dstate[c] += dq[a] * in.w_query[a * n.C + c];
}

inline AttentionGruNumbers<double> attention_gru_gradients(const AttentionGruShape& n,
                                                           const std::vector<double>& dout,
                                                           const std::vector<double>& dcontexts,
                                                           AttentionGruNumbers<double> in) {
  AttentionGruNumbers<double> to = in;
  for (auto* x : to.all()) x->assign(x->size(), 0);
  for (std::size_t b = 0; b < n.B; ++b) {
    const auto steps = attention_gru_steps(n, in, b);
    std::vector<double> dstate(n.C);
    for (std::size_t t = n.T; t-- > 0;) {
      const std::size_t row = b * n.T + t;
      for (std::size_t c = 0; c < n.C; ++c) dstate[c] += dout[row * n.C + c];
      const StepGradient g =
          recurrent_step_gradient(Cell::gru, steps[t].x, steps[t].before, in.w_hidden, in.b_hidden, dstate);
      dstate = g.dstate;
      auto dcontext = slice(dcontexts, row * n.M, n.M);
      for (std::size_t k = 0; k < 3 * n.C; ++k) {
        to.gates[row * 3 * n.C + k] = g.dx[k], to.b_hidden[k] += g.dp[k];
        for (std::size_t m = 0; m < n.M; ++m) dcontext[m] += g.dx[k] * in.w_context[k * n.M + m];
      }
      add_outer(to.w_hidden, g.dp, steps[t].before, n.C);
      add_outer(to.w_context, g.dx, steps[t].context, n.M);
      add_read_gradient(n, in, steps[t], dcontext, b, to, dstate);
    }
    for (std::size_t c = 0; c < n.C && !in.start.empty(); ++c) to.start[b * n.C + c] = dstate[c];
  }
  return to;
}

}  // namespace quern::reference
