// The rows of quern bench --kernels that pass over memory: norms, activations, tables, updates.
#include "bench_kernels.hpp"
#include "quern/kernels/activation.hpp"
#include "quern/kernels/adamw.hpp"
#include "quern/kernels/dropout.hpp"
#include "quern/kernels/embedding.hpp"
#include "quern/kernels/loss.hpp"
#include "quern/kernels/muon.hpp"
#include "quern/kernels/norm.hpp"
#include "quern/kernels/reduce.hpp"
#include "quern/kernels/rotary.hpp"

namespace quern::cli {

namespace {

void elementwise_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = Bench::T, C = Bench::C;
  const Tensor x = b.operand({B, T, C}), y = b.operand({B, T, C}), both = b.operand({B, T, 2 * C});
  b.memory("fill", {y}, [&] { fill(y, 0); });
  b.memory("add_scaled, y = x / 2 + y", {x, y, y}, [&] { add_scaled({y, 1}, x, 0.5F); });
  b.memory("convert (half of concatenate)", {x, y}, [&] { convert({both.columns(0, C), 0}, x); });
  if (b.half()) {
    const Tensor wide = b.tensor({B, T, C});
    b.memory("convert, f32 to bf16", {wide, x}, [&] { convert({x, 0}, wide); });
    b.memory("convert, bf16 to f32", {x, wide}, [&] { convert({wide, 0}, x); });
  }
  const Dropout dropout(RandomStream(1, 2, 3), 0.2, 0);
  b.memory("drop", {x, y}, [&] { drop({y, 0}, x, dropout); });
}

void rotary_rows(Bench& b) {
  constexpr auto B = Bench::B, T = Bench::T, H = Bench::H, C = Bench::C, R = Bench::R;
  const Tensor x = b.operand({B, T, C}), y = b.operand({B, T, C}), dx = b.operand({B, T, C}),
               turns = b.tensor({T, C / H}), dgain = b.tensor({C / H});
  float *gain = b.buffer(C / H), *rstd = b.buffer(R * H);
  const std::span<float> scratch = b.scratch(rotary_backward_scratch(R, C, C / H));
  b.memory("rotary_forward", {x, y}, [&] { rotary_forward(y, x, turns, nullptr, nullptr, 0, H); });
  b.memory("rotary_backward", {y, dx}, [&] {
    rotary_backward({dx, 0}, {}, y, {}, turns, nullptr, nullptr, H, {});
  });
  b.memory("rotary_forward, QK-norm", {x, y}, [&] { rotary_forward(y, x, turns, gain, rstd, 1e-5F, H); });
  b.memory("rotary_backward, QK-norm", {x, y, dx}, [&] {
    rotary_backward({dx, 0}, {dgain, 0}, y, x, turns, gain, rstd, H, scratch);
  });
  if (!b.half()) b.memory("rotary_table", {turns}, [&] { rotary_table(turns, 0, 10000); });
}

/// The branch and the normalised rows are of the table's type, the stream is f32.
void norm_rows(Bench& b) {
  constexpr auto R = Bench::R, C = Bench::C;
  const Tensor stream = b.tensor({R, C}), branch = b.operand({R, C}), x = b.tensor({R, C}),
               h = b.operand({R, C});
  const Tensor dstream = b.tensor({R, C}), dbranch = b.operand({R, C}), dgain = b.tensor({C}),
               dbias = b.tensor({C});
  float *mean = b.buffer(R), *rstd = b.buffer(R), *gain = b.buffer(C), *bias = b.buffer(C);
  const std::span<float> scratch = b.scratch(residual_norm_backward_scratch(R, C));
  const Dropout drops(RandomStream(1, 2, 3), 0.2, 0);
  for (const Dropout& dropout : {Dropout(), drops}) {
    const std::string name = dropout ? ", dropout" : "";
    b.memory("residual_norm_forward" + name, {stream, branch, x, h},
             [&] { residual_norm_forward(x, h, mean, rstd, stream, branch, gain, bias, 1e-5F, dropout); });
    b.memory("residual_norm_backward" + name, {stream, h, x, dstream, dbranch}, [&] {
      residual_norm_backward({dstream, 0}, {dbranch, 0}, {dgain, 0}, {dbias, 0}, stream, h, x, mean, rstd,
                             gain, dropout, scratch);
    });
  }
  b.memory("residual_rmsnorm_forward", {stream, branch, x, h}, [&] {
    residual_norm_forward(x, h, nullptr, rstd, stream, branch, gain, nullptr, 1e-5F, {}, NormKind::rmsnorm);
  });
  b.memory("residual_rmsnorm_backward", {stream, h, x, dstream, dbranch}, [&] {
    residual_norm_backward({dstream, 0}, {dbranch, 0}, {dgain, 0}, {}, stream, h, x, nullptr, rstd, gain, {},
                           scratch, NormKind::rmsnorm);
  });
}

void activation_rows(Bench& b) {
  const Tensor pre = b.operand({Bench::R, Bench::F}), y = b.operand({Bench::R, Bench::F}),
               dy = b.operand({Bench::R, Bench::F});
  for (const auto& [name, kind] :
       {std::pair("gelu", Activation::gelu), std::pair("gelu_erf", Activation::gelu_erf),
        std::pair("relu", Activation::relu), std::pair("relu2", Activation::relu2),
        std::pair("silu", Activation::silu)}) {
    b.memory(std::string(name) + "_forward", {pre, y}, [&] { activation_forward(y, pre, kind); });
    b.memory(std::string(name) + "_backward", {dy, pre, dy, y},
             [&] { activation_backward(dy, y, dy, pre, kind); });
  }
  b.memory("tanh_forward", {pre, y}, [&] { tanh_forward(y, pre); });
  b.memory("tanh_backward", {dy, y, dy}, [&] { tanh_backward({dy, 0}, dy, y); });
  const Tensor both = b.operand({Bench::R, 2 * Bench::F}), dboth = b.operand({Bench::R, 2 * Bench::F});
  for (const auto& [name, kind] :
       {std::pair("swiglu", Activation::swiglu), std::pair("geglu", Activation::geglu)}) {
    b.memory(std::string(name) + "_forward", {both, y}, [&] { activation_forward(y, both, kind); });
    b.memory(std::string(name) + "_backward", {dy, both, dboth, y},
             [&] { activation_backward(dboth, y, dy, both, kind); });
  }
}

/// Logits and values are f32; the gradient of logits is of the table's type.
void loss_rows(Bench& b, const std::int32_t* ids) {
  constexpr auto R = Bench::R, V = Bench::V;
  const Tensor logits = b.tensor({R, V}), gradient(logits.data, b.type, std::array{R, V}),
               y = b.tensor({R, 1}), dy = b.tensor({R, 1});
  const std::span<float> scratch = b.scratch(cross_entropy_rows_scratch(R));
  std::vector<std::int32_t> classes(static_cast<std::size_t>(R));
  if (!b.half()) b.memory("most_likely", {logits}, [&] { most_likely(logits, classes.data()); });
  b.memory("cross_entropy_rows", {logits, gradient},
           [&] { cross_entropy_rows(logits, ids, 0.1F, 1e-3F, scratch, b.type); });
  const float* values = b.buffer(R);
  if (!b.half())
    b.memory("squared_error_rows", {y, y, dy}, [&] { squared_error_rows(dy, y, values, 1e-3F); });
}

/// Tables of f32.
void embedding_rows(Bench& b, const std::int32_t* ids) {
  constexpr std::int64_t C = Bench::C, T = Bench::T;
  const Tensor table = b.tensor({Bench::V, C}), positions = b.tensor({T, C}),
               out = b.tensor({Bench::B, T, C});
  b.memory("embedding_forward", {out}, [&] { embedding_forward(out, ids, table, 1, positions, 0, {}); });
  b.memory("embedding_backward", {out}, [&] {
    embedding_backward({table, 1}, {positions, 0}, out, ids, 1, 0, {});
  });
  b.memory("sinusoidal_positions", {positions}, [&] { sinusoidal_positions(positions); });
}

void table_rows(Bench& b) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(Bench::R));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 31 % Bench::V);
  loss_rows(b, ids.data());
  if (!b.half()) embedding_rows(b, ids.data());
}

/// Sums and searches.
void reduce_rows(Bench& b) {
  constexpr auto R = Bench::R, C = Bench::C;
  const Tensor x = b.operand({R, C}), dbias = b.tensor({C});
  const std::span<float> scratch = b.scratch(column_sum_scratch(R, C));
  b.memory("column_sum (bias gradient)", {x}, [&] { column_sum({dbias, 0}, x, scratch); });
  double found = 0;
  b.memory("all_finite (a search)", {x}, [&] { found += all_finite(x) ? 1 : 0; });
  if (b.half()) return;
  const Tensor g = b.tensor({8 << 20});
  b.memory("first_nonfinite", {g}, [&] { found += static_cast<double>(first_nonfinite(g.f32(), g.size())); });
  b.memory("sum_of_squares (gradient norm)", {g}, [&] { found += sum_of_squares(g.f32(), g.size()); });
}

/// With bf16 an update leaves the weights as that too.
void optimizer_rows(Bench& b) {
  constexpr std::int64_t n = 8 << 20;
  const Tensor w = b.tensor({n}), g = b.tensor({n}), m = b.tensor({n}), v = b.tensor({n});
  fill(v, 0.1F);
  AdamW adamw;
  adamw.learning_rate = 1e-6F;
  if (b.half()) {
    const Tensor shadow = b.operand({n});
    b.memory("adamw_update, with the bf16 weights", {w, g, m, v, w, m, v, shadow}, [&] {
      adamw_update(w.f32(), g.f32(), m.f32(), v.f32(), n, adamw, static_cast<bf16*>(shadow.data));
    });
    return;
  }
  b.memory("adamw_update", {w, g, m, v, w, m, v},
           [&] { adamw_update(w.f32(), g.f32(), m.f32(), v.f32(), n, adamw); });
  constexpr std::int64_t M = 768, N = 3072;
  const std::span<float> scratch = b.scratch(muon_scratch(M, N));
  const auto matrix = [](const Tensor& t) { return Tensor(t.f32(), {M, N}); };
  b.flops("muon_update, 768 x 3072", 5 * (4.0 * M * M * N + 2.0 * M * M * M),
          [&] { muon_update(matrix(w), matrix(g), matrix(m), {}, {.learning_rate = 1e-6F}, scratch); });
}

}  // namespace

void pass_rows(Bench& b) {
  elementwise_rows(b);
  rotary_rows(b);
  norm_rows(b);
  activation_rows(b);
  table_rows(b);
  reduce_rows(b);
  optimizer_rows(b);
}

}  // namespace quern::cli
