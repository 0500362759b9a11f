// The recurrent layers' rows of quern bench --kernels.
#include "bench_kernels.hpp"
#include "quern/kernels/attention_gru.hpp"
#include "quern/kernels/recurrent.hpp"

namespace quern::cli {

namespace {

/// Whole sequences; counted are the products with the state, which wait for one another.
void layer_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = 64, C = Bench::C;
  const Tensor out = b.tensor({B, T, C}), dout = b.tensor({B, T, C}), cells = b.tensor({B, T, C}),
               activated = b.tensor({B, T, 4 * C}), gates = b.tensor({B, T, 4 * C}),
               dgates = b.tensor({B, T, 4 * C}), w = b.tensor({4 * C, C}), dw = b.tensor({4 * C, C});
  float *bias = b.buffer(4 * C), *dbias = b.buffer(4 * C);
  for (std::int64_t i = 0; i < w.size(); ++i) w.f32()[i] *= 0.05F;  // no gate saturates
  for (const auto& [name, cell] : {std::pair("gru", Cell::gru), std::pair("lstm", Cell::lstm)}) {
    const std::int64_t N = gate_count(cell) * C;
    const auto cut = [N](const Tensor& x) { return Tensor(x.f32(), {B, T, N}); };
    const Tensor weights(w.f32(), {N, C});
    const RecurrentSaved saved = {activated, cell == Cell::lstm ? cells : Tensor()};
    const auto n = std::max(recurrent_forward_scratch(out, cell), recurrent_backward_scratch(out, cell));
    const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
    const double products = 2.0 * static_cast<double>(B * T * N * C);
    b.flops((std::string(name) + "_forward").c_str(), products,
            [&] { recurrent_forward(out, saved, cut(gates), weights, bias, cell, {}, scratch); });
    b.flops((std::string(name) + "_backward").c_str(), 2 * products, [&] {
      recurrent_backward({cut(dgates), 0}, {Tensor(dw.f32(), {N, C}), 0}, {Tensor(dbias, {N}), 0}, dout, out,
                         saved, weights, cell, {}, scratch);
    });
  }
}

/// The sums over the keys count as products do.
void attention_gru_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = 30, S = 30, C = 256, A = 256, M = 512;
  const AttentionGruInputs in = {b.tensor({B, T, 3 * C}), b.tensor({B, S, A}),  b.tensor({B, S, M}),
                                 b.tensor({B, C}),        b.tensor({A, C}),     b.buffer(A),
                                 b.tensor({3 * C, M}),    b.tensor({3 * C, C}), b.buffer(3 * C)};
  const AttentionGruOutputs to = {b.tensor({B, T, C}), b.tensor({B, T, M}), b.tensor({B, T, A}),
                                  b.buffer(B * T), b.tensor({B, T, 4 * C})};
  const AttentionGruGradients gradients = {
      {b.tensor({B, T, 3 * C}), 0}, {b.tensor({B, S, A}), 0},  {b.tensor({B, S, M}), 0},
      {b.tensor({B, C}), 0},        {b.tensor({A, C}), 0},     {b.tensor({A}), 0},
      {b.tensor({3 * C, M}), 0},    {b.tensor({3 * C, C}), 0}, {b.tensor({3 * C}), 0}};
  for (const Tensor& w : {in.w_query, in.w_context, in.w_hidden})
    for (std::int64_t i = 0; i < w.size(); ++i) w.f32()[i] *= 0.05F;
  const auto n = std::max(attention_gru_forward_scratch(in), attention_gru_backward_scratch(in));
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
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
