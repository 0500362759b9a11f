// What the rows of quern bench --kernels share.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "quern/base/arena.hpp"
#include "quern/base/parallel.hpp"
#include "quern/kernels/attention.hpp"
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

/// What was measured of a kernel: so many operations, or bytes.
struct BenchRow {
  std::string name;
  double seconds, amount;
  bool flops;
};

/// Sizes of work B0's layers, buffers of that size, and the table as it grows.
struct Bench {
  static constexpr std::int64_t B = 16, T = 256, H = 6, C = 384, F = 1536, V = 65, R = B * T;

  /// `type_` is that of operands and activations where kernels take it.
  explicit Bench(Type type_ = Type::f32) : type(type_) { peak_gflops = product(2048, 1536, 768, type); }

  Type type;
  Pool pool;
  std::vector<BenchRow> rows;
  double peak_gflops = 0;  // in a product

  static constexpr double beyond_caches = 2.0 * 4 * R * 16 * C;  // bytes

  bool half() const { return type == Type::bf16; }

  Tensor tensor(std::initializer_list<std::int64_t> shape, Type of = Type::f32) {
    Tensor t(nullptr, of, std::span(shape.begin(), shape.size()));
    t.data = pool.allocate(static_cast<std::size_t>(t.bytes()));
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const float x = static_cast<float>(i * 37 % 101) * 0.02F - 1;
      if (of == Type::f32) {
        static_cast<float*>(t.data)[i] = x;
      } else {
        static_cast<bf16*>(t.data)[i] = to_bf16(x);
      }
    }
    return t;
  }
  /// Of the table's type.
  Tensor operand(std::initializer_list<std::int64_t> shape) { return tensor(shape, type); }
  float* buffer(std::int64_t n) { return tensor({n}).f32(); }
  std::span<float> scratch(std::size_t n) { return {buffer(static_cast<std::int64_t>(n)), n}; }

  /// GFLOP/s of c (m,n) = a (m,k) · b (k,n), all of one type.
  double product(std::int64_t m, std::int64_t n, std::int64_t k, Type of = Type::f32) {
    const Tensor a = tensor({m, k}, of), b = tensor({k, n}, of), c = tensor({m, n}, of);
    const double s = seconds([&] { gemm(c.mat(), a.mat(), b.mat()); });
    for (const Tensor& t : {a, b, c}) pool.release(t.data);
    return 2e-9 * static_cast<double>(m * n * k) / s;
  }
  /// GB/s of a copy that reads and writes so many bytes together.
  double copy_rate(double bytes) { return pass_rate(bytes, 0); }
  /// GB/s of a copy or of a sum in place, whichever is faster: what a copy overwrites the caches fetch first,
  /// uncounted. That of the power of two next to `bytes`, measured when it is first asked for.
  double memory_peak(double bytes) {
    const double power = std::round(std::log2(std::clamp(bytes, 65536.0, beyond_caches)));
    double& peak = memory_peaks_[static_cast<std::size_t>(power)];
    if (peak == 0) measure_memory(peak, power);
    return peak;
  }
  /// All peaks once more, the better one kept: a machine that does other things too has slow moments.
  void measure_again() {
    peak_gflops = std::max(peak_gflops, product(2048, 1536, 768, type));
    for (std::size_t power = 0; power < memory_peaks_.size(); ++power)
      if (memory_peaks_[power] != 0) measure_memory(memory_peaks_[power], static_cast<double>(power));
  }

  void row(const std::string& name, double s, double amount, bool flops) {
    if (!flops) memory_peak(amount);
    rows.push_back({name, s, amount, flops});
  }
  void flops(const std::string& name, double amount, const std::function<void()>& f) {
    row(name, seconds(f), amount, true);
  }
  /// Memory-bound: what is read and what is written, a tensor of both twice.
  void memory(const std::string& name, std::initializer_list<Tensor> moved, const std::function<void()>& f) {
    double bytes = 0;
    for (const Tensor& t : moved) bytes += static_cast<double>(t.bytes());
    row(name, seconds(f), bytes, false);
  }

 private:
  void measure_memory(double& peak, double power) {
    const double bytes = std::exp2(power);
    peak = std::max({peak, pass_rate(bytes, 0), pass_rate(bytes, 1)});
  }
  /// GB/s of y = x + beta y.
  double pass_rate(double bytes, float beta) {
    const double each = beta == 0 ? 2 : 3;  // x and y are read, y is written
    const std::int64_t n = std::max<std::int64_t>(1, std::llround(bytes / (each * 4 * C)));
    const Tensor x = tensor({n, C}), y = tensor({n, C});
    const double s = seconds([&] { add_scaled({y, beta}, x, 1); });
    for (const Tensor& t : {x, y}) pool.release(t.data);
    return each * 1e-9 * static_cast<double>(x.bytes()) / s;
  }

  std::array<double, 32> memory_peaks_{};  // by power, 0: not yet
};

/// Causal attention on the works' sizes, with what `options` adds to that.
struct AttentionSeconds {
  static constexpr double flops = 2.0 * static_cast<double>(Bench::B * Bench::T * (Bench::T + 1) * Bench::C);

  double forward = 0, backward = 0;

  explicit AttentionSeconds(Bench& b, AttentionOptions options = {});
};

/// The rows, by files.
void attention_rows(Bench& b);
void recurrent_rows(Bench& b);
void pass_rows(Bench& b);

}  // namespace quern::cli
