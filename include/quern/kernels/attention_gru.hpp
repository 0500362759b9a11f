// The decoder of Bahdanau et al. 2014 (1409.0473, section 3.1 and appendix A.1.2, A.2.2): at every step the
// state before asks a memory by additive attention, and what it gets joins the input of a GRU. For every
// sequence, with the state s = s(t-1):
//
//   q(t)     = W_query s
//   e(t,j)   = sum_a v(a) tanh(q(t,a) + keys(j,a));  keys are the memory, multiplied by the paper's U_a
//   a(t,j)   = exp(e(t,j) - lse(t)) for the keys j < length;  lse(t) = log sum_j exp(e(t,j))
//   c(t)     = sum_j a(t,j) memory(j)
//   s(t)     = the GRU's step (recurrent.hpp) from s with x(t) + W_context c(t)
//
// Gradients, in reverse, with those of the GRU's step, dx(t) and dp(t), and dc(t) = what reaches c(t) itself
// + W_contextᵀ dx(t):
//
//   de(t,j)    = a(t,j) (dc(t) memory(j) - dc(t) c(t))
//   dq(t,a)    = sum_j de(t,j) v(a) (1 - tanh(…)^2),  dkeys(j,a) = sum_t de(t,j) v(a) (1 - tanh(…)^2)
//   dmemory(j) = sum_t a(t,j) dc(t),  dv(a) = sum_(t,j) de(t,j) tanh(…)
//   ds(t-1)    = ds(t) z + W_hiddenᵀ dp(t) + W_queryᵀ dq(t)
//   dW_query = sum_t dq(t) s(t-1)ᵀ,  dW_context = sum_t dx(t) c(t)ᵀ,  dW_hidden = sum_t dp(t) s(t-1)ᵀ
//
// Weights are made again from q and lse: nothing of size T S is saved.
#pragma once

#include "quern/kernels/recurrent.hpp"

namespace quern {

/// Tensors of activations are all of one type, f32 or bf16; gates, keys and memory may be columns of wider
/// ones.
struct AttentionGruInputs {
  Tensor gates;                           // (B,T,3C): x
  Tensor keys, memory;                    // (B,S,A), (B,S,M)
  Tensor start;                           // (B,C): s before the first step; none: 0
  Tensor w_query;                         // (A,C)
  const float* v;                         // (A)
  Tensor w_context;                       // (3C,M)
  Tensor w_hidden;                        // (3C,C)
  const float* b_hidden;                  // (3C)
  const std::int32_t* lengths = nullptr;  // (B): keys at or beyond are hidden; null: none are
};

struct AttentionGruOutputs {
  Tensor out, contexts;  // (B,T,C): s; (B,T,M): c
  Tensor queries;        // (B,T,A): q
  float* lse;            // (B,T)
  Tensor activated;      // (B,T,4C), as RecurrentSaved has it; none: backward will not follow
};

/// What forward writes. With a state the steps continue it, from `start` when it is fresh, and it comes to
/// hold them too. `weights` (B,T,S), or null, gets a. A sequence that sees no key has c = 0.
void attention_gru_forward(const AttentionGruOutputs& to, const AttentionGruInputs& in,
                           const RecurrentState& state, float* weights, std::span<float> scratch);

/// Those that are wanted; each may be empty.
struct AttentionGruGradients {
  Sink gates, keys, memory, start, w_query, v, w_context, w_hidden, b_hidden;
};

/// From what forward was given and wrote, without a state. dcontexts may be empty, and so may dout.
void attention_gru_backward(const AttentionGruGradients& to, Tensor dout, Tensor dcontexts,
                            const AttentionGruInputs& in, const AttentionGruOutputs& from,
                            std::span<float> scratch);

/// How many floats each of the two needs as scratch.
std::size_t attention_gru_forward_scratch(const AttentionGruInputs& in);
std::size_t attention_gru_backward_scratch(const AttentionGruInputs& in);

}  // namespace quern
