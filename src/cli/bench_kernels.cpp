// The table of quern bench --kernels.
#include "bench_kernels.hpp"

#include <unistd.h>

#include "bench.hpp"
#include "quern/kernels/activation.hpp"
#include "quern/kernels/adamw.hpp"
#include "quern/kernels/attention.hpp"
#include "quern/kernels/dropout.hpp"
#include "quern/kernels/embedding.hpp"
#include "quern/kernels/linear_attention.hpp"
#include "quern/kernels/loss.hpp"
#include "quern/kernels/muon.hpp"
#include "quern/kernels/norm.hpp"
#include "quern/kernels/reduce.hpp"
#include "quern/kernels/rotary.hpp"
#include "quern/watch/progress.hpp"

namespace quern::cli {

namespace {

void norm_rows(Bench& b) {
  constexpr auto R = Bench::R, C = Bench::C;
  const Tensor stream = b.tensor({R, C}), branch = b.tensor({R, C}), x = b.tensor({R, C}),
               h = b.tensor({R, C});
  const Tensor dstream = b.tensor({R, C}), dbranch = b.tensor({R, C}), dgain = b.tensor({C}),
               dbias = b.tensor({C});
  float *mean = b.buffer(R), *rstd = b.buffer(R), *gain = b.buffer(C), *bias = b.buffer(C);
  const auto n = residual_norm_backward_scratch(R, C);
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
  b.memory("residual_norm_forward", 4, C,
           [&] { residual_norm_forward(x, h, mean, rstd, stream, branch, gain, bias, 1e-5F, {}); });
  b.memory("residual_norm_backward", 5, C, [&] {
    residual_norm_backward({dstream, 0}, {dbranch, 0}, {dgain, 0}, {dbias, 0}, stream, h, x, mean, rstd, gain,
                           {}, scratch);
  });
  const Dropout dropout(RandomStream(1, 2, 3), 0.2, 0);
  b.memory("residual_norm_forward, dropout", 4, C,
           [&] { residual_norm_forward(x, h, mean, rstd, stream, branch, gain, bias, 1e-5F, dropout); });
  b.memory("drop", 2, C, [&] { drop({x, 0}, stream, dropout); });
  b.memory("residual_rmsnorm_forward", 4, C, [&] {
    residual_norm_forward(x, h, nullptr, rstd, stream, branch, gain, nullptr, 1e-5F, {}, NormKind::rmsnorm);
  });
  b.memory("residual_rmsnorm_backward", 5, C, [&] {
    residual_norm_backward({dstream, 0}, {dbranch, 0}, {dgain, 0}, {}, stream, h, x, nullptr, rstd, gain, {},
                           scratch, NormKind::rmsnorm);
  });
  const auto m = column_sum_scratch(R, C);
  const std::span<float> sums(b.buffer(static_cast<std::int64_t>(m)), m);
  b.memory("column_sum (bias gradient)", 1, C, [&] { column_sum({dbias, 0}, x, sums); });
}

void activation_rows(Bench& b) {
  const Tensor pre = b.tensor({Bench::R, Bench::F}), y = b.tensor({Bench::R, Bench::F}),
               dy = b.tensor({Bench::R, Bench::F});
  for (const auto& [name, kind] :
       {std::pair("gelu", Activation::gelu), std::pair("gelu_erf", Activation::gelu_erf),
        std::pair("relu", Activation::relu), std::pair("relu2", Activation::relu2),
        std::pair("silu", Activation::silu)}) {
    b.memory((std::string(name) + "_forward").c_str(), 2, Bench::F,
             [&] { activation_forward(y, pre, kind); });
    b.memory((std::string(name) + "_backward").c_str(), 4, Bench::F,
             [&] { activation_backward(dy, y, dy, pre, kind); });
  }
  b.memory("tanh_forward", 2, Bench::F, [&] { tanh_forward(y, pre); });
  b.memory("tanh_backward", 3, Bench::F, [&] { tanh_backward({dy, 0}, dy, y); });
  const Tensor both = b.tensor({Bench::R, 2 * Bench::F}), dboth = b.tensor({Bench::R, 2 * Bench::F});
  for (const auto& [name, kind] :
       {std::pair("swiglu", Activation::swiglu), std::pair("geglu", Activation::geglu)}) {
    b.memory((std::string(name) + "_forward").c_str(), 3, Bench::F,
             [&] { activation_forward(y, both, kind); });
    b.memory((std::string(name) + "_backward").c_str(), 6, Bench::F,
             [&] { activation_backward(dboth, y, dy, both, kind); });
  }
}

/// Causal attention on the works' sizes.
struct AttentionSeconds {
  static constexpr double flops = 2.0 * static_cast<double>(Bench::B * Bench::T * (Bench::T + 1) * Bench::C);

  double forward = 0, backward = 0;

  /// With ALiBi's slopes, or without.
  AttentionSeconds(Bench& b, const float* slopes) {
    constexpr auto B = Bench::B, T = Bench::T, H = Bench::H, C = Bench::C;
    const Tensor qkv = b.tensor({B, T, 3 * C}), dqkv = b.tensor({B, T, 3 * C}), out = b.tensor({B, T, C}),
                 dout = b.tensor({B, T, C});
    float* lse = b.buffer(B * H * T);
    const auto part = [](const Tensor& t, int i) { return t.columns(i * C, C).split_last(H); };
    const AttentionOptions options{0.125F, {}, slopes, {}};
    const auto n = attention_backward_scratch(B, T, T, H, C / H);
    const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
    forward = seconds([&] {
      attention_forward(out.split_last(H), lse, part(qkv, 0), part(qkv, 1), part(qkv, 2), options);
    });
    backward = seconds([&] {
      attention_backward({part(dqkv, 0), 0}, {part(dqkv, 1), 0}, {part(dqkv, 2), 0}, dout.split_last(H),
                         out.split_last(H), lse, part(qkv, 0), part(qkv, 1), part(qkv, 2), options, scratch);
    });
  }
};

void attention_rows(Bench& b) {
  AttentionSeconds attention(b, nullptr);
  b.row("attention_forward, causal", attention.forward, AttentionSeconds::flops, true);
  b.row("attention_backward, causal", attention.backward, 2.5 * AttentionSeconds::flops, true);
  const std::vector<float> slopes = alibi_slopes(Bench::H);
  attention = AttentionSeconds(b, slopes.data());
  b.row("attention_forward, ALiBi", attention.forward, AttentionSeconds::flops, true);
}

/// Scores by a tanh for each number of each pair: they count as products do.
void additive_rows(Bench& b) {
  constexpr std::int64_t B = 12, T = 64, H = 4, D = 32;
  const Tensor q = b.tensor({B, T, H, D}), k = b.tensor({B, T, H, D}), v = b.tensor({B, T, H, D}),
               out = b.tensor({B, T, H, D}), dq = b.tensor({B, T, H, D}), dk = b.tensor({B, T, H, D}),
               dv = b.tensor({B, T, H, D}), dw = b.tensor({H, D});
  float* lse = b.buffer(B * H * T);
  AttentionOptions options;
  options.additive = b.buffer(H * D);
  const auto n = attention_backward_scratch(B, T, T, H, D, H);
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
  const double causal = 2.0 * B * T * T * H * D;
  b.flops("attention_forward, additive", causal, [&] { attention_forward(out, lse, q, k, v, options); });
  b.flops("attention_backward, additive", 2.5 * causal, [&] {
    attention_backward({dq, 0}, {dk, 0}, {dv, 0}, q, out, lse, q, k, v, options, scratch, {dw, 0});
  });
}

/// One sequence that grows: the rate stays, so the time is linear in T. Counted are the products with the
/// running sums.
void linear_attention_rows(Bench& b) {
  constexpr std::int64_t longest = 65536, H = 4, D = 64, M = 256;
  const Tensor q = b.tensor({1, longest, H, D}), k = b.tensor({1, longest, H, D}),
               v = b.tensor({1, longest, H, D}), out = b.tensor({1, longest, H, D}),
               dq = b.tensor({1, longest, H, D}), dk = b.tensor({1, longest, H, D}),
               dv = b.tensor({1, longest, H, D});
  float *den = b.buffer(H * longest), *directions = b.buffer(M * D);
  const auto n = linear_attention_scratch(q, k, {true, nullptr, directions, M});
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
  const auto rows = [&](const std::string& map, std::int64_t T, const LinearAttentionOptions& options) {
    const auto cut = [T](Tensor x) {
      x.dim[1] = T;
      return x;
    };
    const std::string name = ", " + map + ", T " + std::to_string(T / 1024) + "k";
    const double products = 4.0 * static_cast<double>(T * H * D * (map == "elu" ? D : M));
    b.flops(("linear_attention_forward" + name).c_str(), products,
            [&] { linear_attention_forward(cut(out), den, cut(q), cut(k), cut(v), options, {}, scratch); });
    b.flops(("linear_attention_backward" + name).c_str(), 2.5 * products, [&] {
      linear_attention_backward({cut(dq), 0}, {cut(dk), 0}, {cut(dv), 0}, cut(q), den, cut(q), cut(k), cut(v),
                                options, scratch);
    });
  };
  for (std::int64_t T = 1024; T <= longest; T *= 2) rows("elu", T, {});
  rows("favor", 4096, {true, nullptr, directions, M});
}

/// One long sequence of few heads: what a window saves, and what shared key heads do.
void long_attention_rows(Bench& b) {
  constexpr std::int64_t T = 16384, H = 3, D = 64;
  const Tensor q = b.tensor({1, T, H, D}), k = b.tensor({1, T, H, D}), v = b.tensor({1, T, H, D}),
               out = b.tensor({1, T, H, D}), dq = b.tensor({1, T, H, D}), dk = b.tensor({1, T, H, D}),
               dv = b.tensor({1, T, H, D});
  float* lse = b.buffer(H * T);
  const auto n = attention_backward_scratch(1, T, T, H, D);
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
  for (const std::int64_t window : {std::int64_t{0}, std::int64_t{256}}) {
    AttentionOptions options{0.125F, {}, nullptr, {}};
    options.mask.window = window;
    const std::string name = window == 0 ? ", T 16384" : ", T 16384, window 256";
    const double pairs = window == 0 ? T * T / 2.0 : static_cast<double>(T * window);
    b.flops(("attention_forward" + name).c_str(), 4 * pairs * H * D,
            [&] { attention_forward(out, lse, q, k, v, options); });
    b.flops(("attention_backward" + name).c_str(), 10 * pairs * H * D, [&] {
      attention_backward({dq, 0}, {dk, 0}, {dv, 0}, q, out, lse, q, k, v, options, scratch);
    });
  }
  AttentionOptions options{0.125F, {true, T - 1, nullptr}, nullptr, {}};
  Tensor one = q, to = out;
  one.dim[1] = to.dim[1] = 1;
  for (const std::int64_t heads : {H, H / 3}) {
    const Tensor keys(k.f32(), {1, T, heads, D}), values(v.f32(), {1, T, heads, D});
    b.row(("attention, one query, " + std::to_string(heads) + " key heads").c_str(),
          seconds([&] { attention_forward(to, lse, one, keys, values, options); }),
          2.0 * 4 * static_cast<double>(T * heads * D), false);
  }
}

void rotary_rows(Bench& b) {
  constexpr auto B = Bench::B, T = Bench::T, H = Bench::H, C = Bench::C, R = Bench::R;
  const Tensor x = b.tensor({B, T, C}), y = b.tensor({B, T, C}), dx = b.tensor({B, T, C}),
               turns = b.tensor({T, C / H}), dgain = b.tensor({C / H});
  float *gain = b.buffer(C / H), *rstd = b.buffer(R * H);
  const auto n = rotary_backward_scratch(R, C, C / H);
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
  b.memory("rotary_forward", 2, C, [&] { rotary_forward(y, x, turns, nullptr, nullptr, 0, H); });
  b.memory("rotary_backward", 2, C, [&] {
    rotary_backward({dx, 0}, {}, y, {}, turns, nullptr, nullptr, H, {});
  });
  b.memory("rotary_forward, QK-norm", 2, C, [&] { rotary_forward(y, x, turns, gain, rstd, 1e-5F, H); });
  b.memory("rotary_backward, QK-norm", 3, C, [&] {
    rotary_backward({dx, 0}, {dgain, 0}, y, x, turns, gain, rstd, H, scratch);
  });
  b.memory("rotary_table", 1.0 / Bench::B / H, C, [&] { rotary_table(turns, 0, 10000); });
}

void linear_rows(Bench& b) {
  constexpr auto R = Bench::R, C = Bench::C, F = Bench::F;
  const Tensor x = b.tensor({R, C}), w = b.tensor({F, C}), y = b.tensor({R, F}), dx = b.tensor({R, C}),
               dw = b.tensor({F, C});
  const double amount = 2.0 * static_cast<double>(R * C * F);
  b.flops("linear, Y = X Wt", amount, [&] { gemm(y.mat(), x.mat(), w.mat().t()); });
  b.flops("linear, dX = dY W", amount, [&] { gemm(dx.mat(), y.mat(), w.mat()); });
  b.flops("linear, dW = dYt X", amount, [&] { gemm(dw.mat(), y.mat().t(), x.mat()); });
}

/// What sequence_projection does with each sequence, and concatenate with each of its halves.
void sequence_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = Bench::T, C = Bench::C, rank = 64;
  const Tensor x = b.tensor({B, T, C}), e = b.tensor({rank, T}), y = b.tensor({B, rank, C}),
               both = b.tensor({B, T, 2 * C});
  b.flops("sequence_projection, y = E x", 2.0 * B * rank * T * C, [&] {
    for (std::int64_t i = 0; i < B; ++i)
      gemm(y.mat().row_range(i * rank, rank), e.mat(), x.mat().row_range(i * T, T));
  });
  b.memory("convert (half of concatenate)", 2, C, [&] { convert({both.columns(0, C), 0}, x); });
}

void table_rows(Bench& b) {
  constexpr auto R = Bench::R, C = Bench::C, V = Bench::V;
  const Tensor logits = b.tensor({R, V}), table = b.tensor({V, C}), positions = b.tensor({Bench::T, C}),
               out = b.tensor({Bench::B, Bench::T, C});
  std::vector<std::int32_t> ids(static_cast<std::size_t>(R));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 31 % V);
  const auto n = cross_entropy_rows_scratch(R);
  const std::span<float> scratch(b.buffer(static_cast<std::int64_t>(n)), n);
  b.memory("cross_entropy_rows", 2, V, [&] { cross_entropy_rows(logits, ids.data(), 0.1F, 1e-3F, scratch); });
  b.memory("embedding_forward", 1, C,
           [&] { embedding_forward(out, ids.data(), table, 1, positions, 0, {}); });
  b.memory("embedding_backward", 1, C, [&] {
    embedding_backward({table, 1}, {positions, 0}, out, ids.data(), 1, 0, {});
  });
}

void optimizer_rows(Bench& b) {
  constexpr std::int64_t n = 8 << 20;
  float *w = b.buffer(n), *g = b.buffer(n), *m = b.buffer(n), *v = b.buffer(n);
  std::fill(v, v + n, 0.1F);
  AdamW adamw;
  adamw.learning_rate = 1e-6F;
  b.row("adamw_update", seconds([&] { adamw_update(w, g, m, v, n, adamw); }), 7.0 * 4 * n, false);
  constexpr std::int64_t M = 768, N = 3072;
  const std::span<float> scratch(b.buffer(std::int64_t(muon_scratch(M, N))), muon_scratch(M, N));
  const Tensor mw(w, {M, N}), mg(g, {M, N}), mm(m, {M, N});
  b.row("muon_update, 768 x 3072",
        seconds([&] { muon_update(mw, mg, mm, {}, {.learning_rate = 1e-6F}, scratch); }),
        5 * (4.0 * M * M * N + 2.0 * M * M * M), true);
  double sum = 0;
  b.row("sum_of_squares (gradient norm)", seconds([&] { sum += sum_of_squares(g, n); }), 4.0 * n, false);
}

}  // namespace

MachineRates machine_rates() {
  ProgressLine progress(inspect_terminal(STDERR_FILENO), "measuring this machine", 4);
  Bench b;
  MachineRates rates;
  rates.gflops = b.peak_gflops;
  progress.update(1);
  rates.bf16_gflops = b.product(2048, 1536, 768, Type::bf16);
  progress.update(2);
  rates.gigabytes_per_second = b.peak_gbs;
  rates.cache_gigabytes_per_second = b.copy_rate(682);  // 1 MB to 1 MB
  progress.update(3);
  const AttentionSeconds attention(b, nullptr);
  rates.attention_gflops = AttentionSeconds::flops * 1e-9 / attention.forward;
  rates.attention_backward_gflops = 2.5 * AttentionSeconds::flops * 1e-9 / attention.backward;
  constexpr double small = 2e-9 * 768 * 384 * 128;  // in 10^9 operations
  rates.call_microseconds = std::max(0.0, 1e6 * (small / b.product(768, 384, 128) - small / rates.gflops));
  return rates;
}

std::string kernel_table() {
  Bench b;
  char head[200];
  std::snprintf(head, sizeof head,
                "%d threads; shares are of this machine's measured %.0f GFLOP/s (a 2048x1536x768 product) "
                "and %.1f GB/s "
                "(a copy)\n",
                thread_count(), b.peak_gflops, b.peak_gbs);
  b.text = head;
  linear_rows(b);
  sequence_rows(b);
  attention_rows(b);
  long_attention_rows(b);
  additive_rows(b);
  linear_attention_rows(b);
  recurrent_rows(b);
  rotary_rows(b);
  norm_rows(b);
  activation_rows(b);
  table_rows(b);
  optimizer_rows(b);
  return b.text;
}

}  // namespace quern::cli
