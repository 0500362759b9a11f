// What the rows of quern bench --kernels share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "quern/base/arena.hpp"
#include "quern/base/parallel.hpp"
#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern::cli {

/// The least seconds of several runs: at least five, and at least a fifth of a second of them.
inline double seconds(const std::function<void()>& f) {
  f();
  double best = 1e30, total = 0;
  for (int i = 0; i < 5 || total < 0.2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::min(best, s);
    total += s;
  }
  return best;
}

/// Sizes of work B0's layers, and buffers of that size.
struct Bench {
  static constexpr std::int64_t B = 16, T = 256, H = 6, C = 384, F = 1536, V = 65, R = B * T;

  Bench() : peak_gflops(product(2048, 1536, 768)), peak_gbs(copy_rate()) {}

  Pool pool;
  std::string text;
  double peak_gflops = 0, peak_gbs = 0;

  float* buffer(std::int64_t n) {
    auto* data = static_cast<float*>(pool.allocate(static_cast<std::size_t>(n) * 4));
    for (std::int64_t i = 0; i < n; ++i) data[i] = static_cast<float>(i * 37 % 101) * 0.02F - 1;
    return data;
  }
  Tensor tensor(std::initializer_list<std::int64_t> shape) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    return {buffer(n), shape};
  }

  double product(std::int64_t m, std::int64_t n, std::int64_t k, Type type = Type::f32) {
    Tensor a = tensor({m, k}), b = tensor({k, n}), c = tensor({m, n});
    for (Tensor* t : {&a, &b, &c}) t->type = type;  // any numbers do
    if (type == Type::bf16)
      for (const Tensor& t : {a, b}) std::fill_n(static_cast<bf16*>(t.data), t.size(), to_bf16(0.5F));
    const double s = seconds([&] { gemm(c.mat(), a.mat(), b.mat()); });
    for (const Tensor& t : {a, b, c}) pool.release(t.data);
    return 2e-9 * static_cast<double>(m * n * k) / s;
  }
  double copy_rate(std::int64_t rows = R * 16) {
    const Tensor x = tensor({rows, C}), y = tensor({rows, C});
    const double s = seconds([&] { add_scaled({y, 0}, x, 1); });
    for (const Tensor& t : {x, y}) pool.release(t.data);
    return 2e-9 * static_cast<double>(x.bytes()) / s;
  }

  void row(const char* name, double s, double amount, bool flops) {
    const double rate = amount * 1e-9 / s, peak = flops ? peak_gflops : peak_gbs;
    char line[120];
    std::snprintf(line, sizeof line, "%-34s %9.3f ms %8.1f %-8s %4.0f %%\n", name, s * 1e3, rate,
                  flops ? "GFLOP/s" : "GB/s", 100 * rate / peak);
    text += line;
  }
  /// Memory-bound: `tensors` times (R, width) numbers are read or written.
  void memory(const char* name, double tensors, std::int64_t width, const std::function<void()>& f) {
    row(name, seconds(f), tensors * 4 * static_cast<double>(R * width), false);
  }
  void flops(const char* name, double amount, const std::function<void()>& f) {
    row(name, seconds(f), amount, true);
  }
};

/// The rows of the recurrent layers.
void recurrent_rows(Bench& b);

}  // namespace quern::cli
