// Recurrent layers over whole sequences. For step t a layer has the gates' pre-activations that come from its
// input, x(t) = W_input input(t) + b_input, made for all steps at once; with the state before, h = h(t-1),
// and p = W_hidden h + b_hidden, it is
//
//   gru   (Cho et al. 2014, 1406.1078, section 2.3, in the form of cuDNN and PyTorch, where the reset gate
//         acts on the product), gates r, z, n:
//           r = sigmoid(x_r + p_r),  z = sigmoid(x_z + p_z),  n = tanh(x_n + r p_n)
//           h(t) = (1 - z) n + z h
//   lstm  (Hochreiter & Schmidhuber 1997, "Long short-term memory", with the forget gate of Gers et al. 2000,
//         "Learning to forget"), gates i, f, g, o, and c = c(t-1):
//           i = sigmoid(x_i + p_i),  f = sigmoid(x_f + p_f),  g = tanh(x_g + p_g),  o = sigmoid(x_o + p_o)
//           c(t) = f c + i g,  h(t) = o tanh(c(t))
//
// and out(t) = h(t). Gradients, in reverse, with dh that of h(t) from out(t) and from the step behind, and dc
// that of c(t) from the step behind:
//
//   gru   dx_n = dh (1 - z) (1 - n^2),  dx_r = dx_n p_n r (1 - r),  dx_z = dh (h - n) z (1 - z)
//         dp_n = dx_n r,  dp_r = dx_r,  dp_z = dx_z
//         dh(t-1) = dh z + W_hiddenᵀ dp
//   lstm  dc' = dc + dh o (1 - tanh(c(t))^2)
//         dx_i = dc' g i (1 - i),  dx_f = dc' c f (1 - f),  dx_g = dc' i (1 - g^2)
//         dx_o = dh tanh(c(t)) o (1 - o),  dp = dx
//         dc(t-1) = dc' f,  dh(t-1) = W_hiddenᵀ dp
//   dW_hidden = sum_t dp(t) h(t-1)ᵀ,  db_hidden = sum_t dp(t)
//
// The steps follow one another; what is a sum over them, dW_hidden above all, is one product behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quern/kernels/tensor.hpp"

namespace quern {

enum class Cell { gru, lstm };

/// G, the gates of a cell.
constexpr std::int64_t gate_count(Cell cell) { return cell == Cell::gru ? 3 : 4; }
/// The numbers of a state: h, and behind it an LSTM's c.
constexpr std::int64_t state_width(Cell cell, std::int64_t C) { return cell == Cell::gru ? C : 2 * C; }

/// What the tokens so far have left behind: what decoding needs to go on.
struct RecurrentState {
  float* numbers = nullptr;  // (B,state_width); null: none, the state starts as 0
  bool fresh = true;         // nothing was read yet: what lies there is not read
};

struct RecurrentOptions {
  /// (B): at or beyond its length a sequence leaves its state as it is, and out is 0; null: none ends early.
  const std::int32_t* lengths = nullptr;
  bool reverse = false;    // from the last step to the first, without a state
  RecurrentState state{};  // which the steps continue, and which comes to hold them too
};

/// What backward reads again.
struct RecurrentSaved {
  Tensor activated;  // (B,T,4C), of the type of the gates: r, z, n, p_n or i, f, g, o
  Tensor cells;      // (B,T,C), f32: c of an LSTM
};

/// out and, unless both are empty, what is saved; gates and out are of one type, f32 or bf16, states are f32.
/// gates may be columns of a wider tensor. One product and one pass over the rows a step.
void recurrent_forward(Tensor out,                   // (B,T,C)
                       const RecurrentSaved& saved,  //
                       Tensor gates,                 // (B,T,G*C): x
                       Tensor w_hidden,              // (G*C,C)
                       const float* b_hidden,        // (G*C)
                       Cell cell, const RecurrentOptions& options, std::span<float> scratch);

/// The gradients that are wanted (each sink may be empty), from what forward wrote, without a state. dout and
/// dgates may be of a type of their own.
void recurrent_backward(Sink dgates,                  // (B,T,G*C)
                        Sink dw_hidden,               // (G*C,C)
                        Sink db_hidden,               // (G*C)
                        Tensor dout,                  // (B,T,C)
                        Tensor out,                   // (B,T,C)
                        const RecurrentSaved& saved,  //
                        Tensor w_hidden,              // (G*C,C)
                        Cell cell, const RecurrentOptions& options, std::span<float> scratch);

/// How many floats each of the two needs as scratch; out (B,T,C).
std::size_t recurrent_forward_scratch(const Tensor& out, Cell cell);
std::size_t recurrent_backward_scratch(const Tensor& out, Cell cell);

}  // namespace quern
