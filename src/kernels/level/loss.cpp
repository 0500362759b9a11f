#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

float row_max(const float* x, int64_t n) {
  vf m[4];
  for (vf& part : m) part = broadcast(-__builtin_inff());
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes)
    for (int i = 0; i < 4; ++i) m[i] = max(m[i], load(x + j + i * lanes));
  columns(j, n,
          [&](int64_t c, int64_t k) QUERN_LAMBDA { m[0] = max(m[0], load_n(x + c, k, -__builtin_inff())); });
  return largest(max(max(m[0], m[1]), max(m[2], m[3])));
}

struct RowSums {
  double exps, shifted;  // sum of exp(x - largest), sum of x - largest
};

/// Exponentials go to `out` when it is not null (it may be x).
RowSums row_exp(float* out, const float* x, int64_t n, float top) {
  constexpr int64_t block = 1024;  // floats are added within a block, blocks in double
  RowSums total = {0, 0};
  for (int64_t b = 0; b < n; b += block) {
    vf exps[2] = {}, shifted[2] = {};
    const auto add = [&](int64_t j, int64_t k, int i) QUERN_LAMBDA {
      const vf z = load_n(x + j, k, -__builtin_inff()) - top, e = exp(z);
      if (out != nullptr) store_n(out + j, e, k);
      exps[i] += e;
      shifted[i] += only(z, k);
    };
    const int64_t end = b + block < n ? b + block : n;
    int64_t j = b;
    for (; j + 2 * lanes <= end; j += 2 * lanes) {
      add(j, lanes, 0);
      add(j + lanes, lanes, 1);
    }
    columns(j, end, [&](int64_t c, int64_t k) QUERN_LAMBDA { add(c, k, 0); });
    total.exps += static_cast<double>(sum(exps[0] + exps[1]));
    total.shifted += static_cast<double>(sum(shifted[0] + shifted[1]));
  }
  return total;
}

/// The gradient of a row from its exponentials, in place. As bfloat16 it takes the first half of the row:
/// what is written never overtakes what is read.
template <class T>
void write_gradient(float* x, const Loss& a, double exps, int32_t target) {
  const double scale = a.gradient_scale, e = a.smoothing, v = static_cast<double>(a.cols);
  const double probability = static_cast<double>(x[target]) / exps;
  const float factor = static_cast<float>(scale / exps), uniform = static_cast<float>(scale * e / v);
  T* to = reinterpret_cast<T*>(x);  // only load and store touch it, and they copy bytes
  columns(0, a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    store_n(to + j, load_n(x + j, k) * factor - uniform, k);
  });
  store_part(to + target, broadcast(static_cast<float>(scale * (probability - (1 - e) - e / v))), 1);
}

}  // namespace

void loss(const Loss& a, int64_t begin, int64_t end) {
  const double e = a.smoothing, v = static_cast<double>(a.cols);
  const bool gradient = a.gradient_scale != 0;
  for (int64_t r = begin; r < end; ++r) {
    float* x = at(a.logits, r);
    const int32_t target = a.targets[r];
    if (target < 0) {
      a.nll[r] = a.smoothed[r] = 0;
      if (gradient) columns(0, a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(x + j, vf{}, k); });
      continue;
    }
    const float top = row_max(x, a.cols), at_target = x[target];
    const RowSums sums = row_exp(gradient ? x : nullptr, x, a.cols, top);
    const double log_sum = __builtin_log(sums.exps);
    const double nll = log_sum - (static_cast<double>(at_target) - static_cast<double>(top));
    a.nll[r] = static_cast<float>(nll);
    a.smoothed[r] = static_cast<float>(e == 0 ? nll : (1 - e) * nll + e * (log_sum - sums.shifted / v));
    if (!gradient) continue;
    if (a.half_gradient) {
      write_gradient<uint16_t>(x, a, sums.exps, target);
    } else {
      write_gradient<float>(x, a, sums.exps, target);
    }
  }
}

}  // namespace quern::kernels::QUERN_LEVEL
