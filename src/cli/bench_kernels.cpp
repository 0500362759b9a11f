// The table of quern bench --kernels, and its products.
#include "bench_kernels.hpp"

#include <unistd.h>

#include "bench.hpp"
#include "quern/watch/progress.hpp"

namespace quern::cli {

namespace {

void linear_rows(Bench& b) {
  constexpr auto R = Bench::R, C = Bench::C, F = Bench::F;
  const Tensor x = b.operand({R, C}), w = b.operand({F, C}), y = b.operand({R, F}), dx = b.operand({R, C}),
               dw = b.tensor({F, C});
  const double amount = 2.0 * static_cast<double>(R * C * F);
  b.flops("linear, Y = X Wt", amount, [&] { gemm(y.mat(), x.mat(), w.mat().t()); });
  b.flops("linear, dX = dY W", amount, [&] { gemm(dx.mat(), y.mat(), w.mat()); });
  b.flops("linear, dW = dYt X", amount, [&] { gemm(dw.mat(), y.mat().t(), x.mat()); });
}

/// Decoding's largest product, a head's, for one sequence and for four: it reads the matrix once.
void decoding_rows(Bench& b) {
  constexpr std::int64_t N = 50304, K = 768;
  const Tensor w = b.operand({N, K});
  for (const std::int64_t rows : {1, 4}) {
    const Tensor x = b.operand({rows, K}), y = b.tensor({rows, N});
    b.memory("decoding, " + std::to_string(rows) + (rows == 1 ? " row" : " rows") + " x (768 x 50304)",
             {w, x, y}, [&] { gemm(y.mat(), x.mat(), w.mat().t()); });
  }
}

/// What sequence_projection does with each sequence, and concatenate with each of its halves.
void sequence_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = Bench::T, C = Bench::C, rank = 64;
  const Tensor x = b.operand({B, T, C}), e = b.operand({rank, T}), y = b.operand({B, rank, C});
  b.flops("sequence_projection, y = E x", 2.0 * B * rank * T * C, [&] {
    for (std::int64_t i = 0; i < B; ++i)
      gemm(y.mat().row_range(i * rank, rank), e.mat(), x.mat().row_range(i * T, T));
  });
}

/// General scores' products, one a head.
void head_rows(Bench& b) {
  constexpr std::int64_t B = Bench::B, T = Bench::T, H = Bench::H, C = Bench::C, D = C / H;
  const Tensor x = b.operand({B, T, C}), w = b.operand({C, D}), y = b.operand({B, T, C}),
               dx = b.operand({B, T, C}), dw = b.tensor({C, D});
  const auto head = [](const Tensor& t, std::int64_t h) { return t.columns(h * D, D).mat(); };  // (B*T,D)
  const double amount = 2.0 * B * T * C * D;
  b.flops("head_products, forward", amount, [&] {
    for (std::int64_t h = 0; h < H; ++h) gemm(head(y, h), head(x, h), w.mat().row_range(h * D, D));
  });
  b.flops("head_products, backward", 2 * amount, [&] {
    for (std::int64_t h = 0; h < H; ++h) {
      gemm(dw.mat().row_range(h * D, D), head(x, h).t(), head(y, h));
      gemm(head(dx, h), head(y, h), w.mat().row_range(h * D, D).t());
    }
  });
}

/// Each row with its share of the product's rate, or of memory_peak.
std::string text_of(Bench& b) {
  char line[240];
  std::snprintf(line, sizeof line,
                "%d threads, %s; shares are of what this machine was measured to reach:\n"
                "%.0f GFLOP/s in a product of 2048x1536x768, and a copy or a sum of as many bytes,\n"
                "%.1f GB/s beyond the caches\n",
                thread_count(), b.half() ? "bf16" : "f32", b.peak_gflops,
                b.memory_peak(Bench::beyond_caches));
  std::string text = line;
  for (const auto& [name, seconds, amount, flops] : b.rows) {
    const double rate = amount * 1e-9 / seconds, peak = flops ? b.peak_gflops : b.memory_peak(amount);
    std::snprintf(line, sizeof line, "%-41s %9.3f ms %8.1f %-7s %5.1f %%\n", name.c_str(), seconds * 1e3,
                  rate, flops ? "GFLOP/s" : "GB/s", 100 * rate / peak);
    text += line;
  }
  return text;
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
  rates.gigabytes_per_second = b.copy_rate(Bench::beyond_caches);
  rates.cache_gigabytes_per_second = b.copy_rate(2 << 20);  // 1 MB to 1 MB
  progress.update(3);
  const AttentionSeconds attention(b);
  rates.attention_gflops = AttentionSeconds::flops * 1e-9 / attention.forward;
  rates.attention_backward_gflops = 2.5 * AttentionSeconds::flops * 1e-9 / attention.backward;
  constexpr double small = 2e-9 * 768 * 384 * 128;  // in 10^9 operations
  rates.call_microseconds = std::max(0.0, 1e6 * (small / b.product(768, 384, 128) - small / rates.gflops));
  return rates;
}

std::string kernel_table(Type type) {
  Bench b(type);
  linear_rows(b);
  decoding_rows(b);
  sequence_rows(b);
  head_rows(b);
  attention_rows(b);
  recurrent_rows(b);
  pass_rows(b);
  b.measure_again();
  return text_of(b);
}

}  // namespace quern::cli
