#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

constexpr float gelu_slope = 0x1.988454p-1F;  // sqrt(2 / pi)
constexpr float gelu_cube = 0.044715F;
constexpr float normal_peak = 0x1.988454p-2F;  // 1 / sqrt(2 pi)
constexpr float sqrt_half = 0x1.6a09e6p-1F;

// Each gives f(x), NaN for an infinite x, and f'(x) as well when `slope` is not null. Outside of [-10, 12]
// the tanh form, outside of [-16, 16] the erf form is 0 or x to the last digit. Staying inside keeps the
// squares of large numbers finite.

/// x * s, s = 1 / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3)
QUERN_INLINE vf gelu(vf x, vf* slope) {
  const vf low = at_least(x, -10), z = at_most(low, 12), square = z * z;
  const vf e = exp_below((-2 * gelu_slope) * z * (1.0F + gelu_cube * square)), s = 1.0F / (1.0F + e);
  if (slope != nullptr) {
    const vf twice_du = (2 * gelu_slope) * (1.0F + (3 * gelu_cube) * square);
    *slope = s + z * s * (e * s) * twice_du;  // 1 - s = e * s, which keeps its digits near s = 1
  }
  return low * s + nan_unless_finite(x);
}

/// x * Phi(x), by the tail Phi(-|x|) = erfc(|x| / sqrt(2)) / 2
QUERN_INLINE vf gelu_erf(vf x, vf* slope) {
  const vf low = at_least(x, -16), z = at_most(low, 16);
  const vf bell = exp_below(-0.5F * (z * z)), tail = 0.5F * erfc_scaled(abs(z) * sqrt_half) * bell;
  if (slope != nullptr) *slope = (z < 0 ? tail : 1.0F - tail) + z * bell * normal_peak;
  return (z < 0 ? z * tail : low - z * tail) + nan_unless_finite(x);
}

QUERN_INLINE vf relu(vf x, vf* slope) {
  if (slope != nullptr) *slope = x > 0 ? broadcast(1) : vf{};
  return at_least(x, 0) + nan_unless_finite(x);
}

QUERN_INLINE vf relu2(vf x, vf* slope) {
  const vf high = at_least(x, 0);
  if (slope != nullptr) *slope = high + high;
  return high * x + 0.0F;  // NaN for -inf; the zero's sign is that of a square
}

/// x * s, s = 1 / (1 + exp(-x)); below -80 exp would near the largest float: there the result is 0 to 1e-33.
QUERN_INLINE vf silu(vf x, vf* slope) {
  const vf low = at_least(x, -80), z = at_most(low, 80), e = exp_normal(-z), s = 1.0F / (1.0F + e);
  if (slope != nullptr) *slope = s + z * s * (e * s);
  return low * s + nan_unless_finite(x);
}

template <class T, class F>
QUERN_INLINE void each(const Map& a, int64_t begin, int64_t end, F f) {
  T* y = at<T>(a.y, 0);
  const T *x = at<T>(a.x, 0), *by = at<T>(a.by, 0);
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf value = f(load_n(x + j, k));
    store_n(y + j, by != nullptr ? value * load_n(by + j, k) : value, k);
  });
}

template <class T, class F>
QUERN_INLINE void each_backward(const MapBackward& a, int64_t begin, int64_t end, F f) {
  T *dx = at<T>(a.dx, 0), *dby = at<T>(a.dby, 0), *y = at<T>(a.y, 0);
  const T *dy = at<T>(a.dy, 0), *x = at<T>(a.x, 0), *by = at<T>(a.by, 0);
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    vf d = load_n(dy + j, k), slope;
    vf value = f(load_n(x + j, k), &slope);
    if (by != nullptr) {
      const vf through = load_n(by + j, k);
      store_n(dby + j, d * value, k);
      value *= through;
      d *= through;
    }
    if (y != nullptr) store_n(y + j, value, k);
    store_n(dx + j, d * slope, k);
  });
}

#define QUERN_EACH(f) each<T>(a, begin, end, [](vf x) QUERN_LAMBDA { return f; })
#define QUERN_EACH_BACKWARD(f) \
  each_backward<T>(a, begin, end, [](vf x, vf* slope) QUERN_LAMBDA { return f(x, slope); })

template <class T>
void map_of(const Map& a, int64_t begin, int64_t end) {
  switch (a.function) {
    case Function::gelu: return QUERN_EACH(gelu(x, nullptr));
    case Function::gelu_erf: return QUERN_EACH(gelu_erf(x, nullptr));
    case Function::relu: return QUERN_EACH(relu(x, nullptr));
    case Function::relu2: return QUERN_EACH(relu2(x, nullptr));
    case Function::silu: return QUERN_EACH(silu(x, nullptr));
    case Function::exp: return QUERN_EACH(exp(x));
    case Function::tanh: return QUERN_EACH(tanh(x));
    case Function::erf: return QUERN_EACH(erf(x));
    case Function::erfc: return QUERN_EACH(erfc_positive(x));
  }
}

template <class T>
void map_backward_of(const MapBackward& a, int64_t begin, int64_t end) {
  switch (a.function) {
    case Function::gelu: return QUERN_EACH_BACKWARD(gelu);
    case Function::gelu_erf: return QUERN_EACH_BACKWARD(gelu_erf);
    case Function::relu: return QUERN_EACH_BACKWARD(relu);
    case Function::relu2: return QUERN_EACH_BACKWARD(relu2);
    case Function::silu: return QUERN_EACH_BACKWARD(silu);
    default: return;
  }
}

template <class To, class From>
void tanh_backward_as(const TanhBackward& a, int64_t begin, int64_t end) {
  To* dx = at<To>(a.dx, 0);
  const From *dy = at<From>(a.dy, 0), *y = at<From>(a.y, 0);
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf t = load_n(y + j, k);
    sink_n(dx + j, load_n(dy + j, k) * (1.0F - t * t), a.beta, k);
  });
}

}  // namespace

void map(const Map& a, int64_t begin, int64_t end) {
  if (a.x.half) return map_of<uint16_t>(a, begin, end);
  map_of<float>(a, begin, end);
}

void map_backward(const MapBackward& a, int64_t begin, int64_t end) {
  if (a.x.half) return map_backward_of<uint16_t>(a, begin, end);
  map_backward_of<float>(a, begin, end);
}

void tanh_backward(const TanhBackward& a, int64_t begin, int64_t end) {
  if (a.dx.half && a.y.half) return tanh_backward_as<uint16_t, uint16_t>(a, begin, end);
  if (a.dx.half) return tanh_backward_as<uint16_t, float>(a, begin, end);
  if (a.y.half) return tanh_backward_as<float, uint16_t>(a, begin, end);
  tanh_backward_as<float, float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
