// The recurrent layers' rows of quern bench --kernels.
#include "bench_kernels.hpp"
#include "quern/kernels/attention_gru.hpp"
#include "quern/kernels/recurrent.hpp"

namespace quern::cli {

namespace {

/// A matrix of weights so small that no gate saturates: of the table's type.
Tensor small_weights(Bench& b, std::initializer_list<std::int64_t> shape) {
  const Tensor w = b.operand(shape);
  add_scaled({w, 0}, w, 0.05F);
  return w;
}

/// Whole sequences; counted are the products with the state, which wait for one another.
void layer_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = 64, C = Bench::C;
  const Tensor out = b.operand({B, T, C}), dout = b.operand({B, T, C}), cells = b.tensor({B, T, C}),
               activated = b.operand({B, T, 4 * C});
  for (const auto& [name, cell] : {std::pair("gru", Cell::gru), std::pair("lstm", Cell::lstm)}) {
    const std::int64_t N = gate_count(cell) * C;
    const Tensor gates = b.operand({B, T, N}), dgates = b.operand({B, T, N}), w = small_weights(b, {N, C}),
                 dw = b.tensor({N, C}), dbias = b.tensor({N});
    const float* bias = b.buffer(N);
    const RecurrentSaved saved = {activated, cell == Cell::lstm ? cells : Tensor()};
    const std::span<float> scratch =
        b.scratch(std::max(recurrent_forward_scratch(out, cell), recurrent_backward_scratch(out, cell)));
    const double products = 2.0 * static_cast<double>(B * T * N * C);
    b.flops(std::string(name) + "_forward", products,
            [&] { recurrent_forward(out, saved, gates, w, bias, cell, {}, scratch); });
    b.flops(std::string(name) + "_backward", 2 * products, [&] {
      recurrent_backward({dgates, 0}, {dw, 0}, {dbias, 0}, dout, out, saved, w, cell, {}, scratch);
    });
  }
}

/// The sums over the keys count as products do.
void attention_gru_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = 30, S = 30, C = 256, A = 256, M = 512;
  const AttentionGruInputs in = {b.operand({B, T, 3 * C}),
                                 b.operand({B, S, A}),
                                 b.operand({B, S, M}),
                                 b.operand({B, C}),
                                 small_weights(b, {A, C}),
                                 b.buffer(A),
                                 small_weights(b, {3 * C, M}),
                                 small_weights(b, {3 * C, C}),
                                 b.buffer(3 * C)};
  const AttentionGruOutputs to = {b.operand({B, T, C}), b.operand({B, T, M}), b.operand({B, T, A}),
                                  b.buffer(B * T), b.operand({B, T, 4 * C})};
  const AttentionGruGradients gradients = {
      {b.operand({B, T, 3 * C}), 0}, {b.operand({B, S, A}), 0}, {b.operand({B, S, M}), 0},
      {b.operand({B, C}), 0},        {b.tensor({A, C}), 0},     {b.tensor({A}), 0},
      {b.tensor({3 * C, M}), 0},     {b.tensor({3 * C, C}), 0}, {b.tensor({3 * C}), 0}};
  const std::span<float> scratch =
      b.scratch(std::max(attention_gru_forward_scratch(in), attention_gru_backward_scratch(in)));
  const double products = 2.0 * B * T * (A * C + 3 * C * (M + C)), keys = 2.0 * B * T * S;
  b.flops("attention_gru_forward", products + keys * (A + M),
          [&] { attention_gru_forward(to, in, {}, nullptr, scratch); });
  b.flops("attention_gru_backward", 2 * products + keys * (3 * A + 2 * M),
          [&] { attention_gru_backward(gradients, to.out, to.contexts, in, to, scratch); });
}

}  // namespace

void recurrent_rows(Bench& b) {
  layer_rows(b);
  attention_gru_rows(b);
}

}  // namespace quern::cli
