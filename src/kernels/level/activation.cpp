#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

// NaN passes through both: a comparison with it is false.
QUERN_INLINE vf at_least(vf x, float low) { return x < low ? broadcast(low) : x; }
QUERN_INLINE vf at_most(vf x, float high) { return x > high ? broadcast(high) : x; }

constexpr float gelu_slope = 0x1.988454p-1F;  // sqrt(2 / pi)
constexpr float gelu_cube = 0.044715F;
constexpr float normal_peak = 0x1.988454p-2F;  // 1 / sqrt(2 pi)
constexpr float sqrt_half = 0x1.6a09e6p-1F;

/// exp(-2u), u = sqrt(2/pi) * (x + 0.044715 x^3)
QUERN_INLINE vf gelu_exp(vf x) { return exp((-2 * gelu_slope) * x * (1.0F + gelu_cube * (x * x))); }

// Outside of [-10, 12] the tanh form, outside of [-16, 16] the erf form is 0 or x to the last digit. Staying
// inside keeps inf * 0 away.
QUERN_INLINE vf gelu(vf x) {
  const vf z = at_least(x, -12);
  return z / (1.0F + gelu_exp(z));
}

QUERN_INLINE vf gelu_slope_at(vf x) {
  const vf z = at_most(at_least(x, -10), 12);
  const vf e = gelu_exp(z), s = 1.0F / (1.0F + e);
  const vf twice_du = (2 * gelu_slope) * (1.0F + (3 * gelu_cube) * (z * z));
  return s + z * s * (e * s) * twice_du;  // 1 - s = e * s, which keeps its digits near s = 1
}

/// Phi(-|x|) = erfc(|x| / sqrt(2)) / 2 and exp(-x^2 / 2)
QUERN_INLINE vf normal_tail(vf x, vf& bell) {
  bell = exp(-0.5F * (x * x));
  return 0.5F * erfc_scaled(abs(x) * sqrt_half) * bell;
}

QUERN_INLINE vf gelu_erf(vf x) {
  const vf z = at_least(x, -16);
  vf bell;
  const vf tail = normal_tail(at_most(z, 16), bell);
  return z < 0 ? z * tail : z - at_most(z, 16) * tail;
}

QUERN_INLINE vf gelu_erf_slope_at(vf x) {
  const vf z = at_most(at_least(x, -16), 16);
  vf bell;
  const vf tail = normal_tail(z, bell);
  return (z < 0 ? tail : 1.0F - tail) + z * bell * normal_peak;
}

template <class F>
QUERN_INLINE void each(const Map& a, int64_t begin, int64_t end, F f) {
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(a.y + j, f(load_n(a.x + j, k)), k); });
}

template <class F, class S>
QUERN_INLINE void each_backward(const MapBackward& a, int64_t begin, int64_t end, F f, S slope) {
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf x = load_n(a.x + j, k), dy = load_n(a.dy + j, k);
    if (a.y != nullptr) store_n(a.y + j, f(x), k);
    store_n(a.dx + j, dy * slope(x), k);
  });
}

#define QUERN_EACH(f) each(a, begin, end, [](vf x) QUERN_LAMBDA { return f; })
#define QUERN_EACH_BACKWARD(f, slope) \
  each_backward(                      \
      a, begin, end, [](vf x) QUERN_LAMBDA { return f; }, [](vf x) QUERN_LAMBDA { return slope; })

}  // namespace

void map(const Map& a, int64_t begin, int64_t end) {
  switch (a.function) {
    case Function::gelu: return QUERN_EACH(gelu(x));
    case Function::gelu_erf: return QUERN_EACH(gelu_erf(x));
    case Function::relu: return QUERN_EACH(at_least(x, 0));
    case Function::exp: return QUERN_EACH(exp(x));
    case Function::tanh: return QUERN_EACH(tanh(x));
    case Function::erf: return QUERN_EACH(erf(x));
    case Function::erfc: return QUERN_EACH(erfc_positive(x));
  }
}

void map_backward(const MapBackward& a, int64_t begin, int64_t end) {
  switch (a.function) {
    case Function::gelu: return QUERN_EACH_BACKWARD(gelu(x), gelu_slope_at(x));
    case Function::gelu_erf: return QUERN_EACH_BACKWARD(gelu_erf(x), gelu_erf_slope_at(x));
    case Function::relu: return QUERN_EACH_BACKWARD(at_least(x, 0), x > 0 ? broadcast(1) : vf{});
    default: return;
  }
}

}  // namespace quern::kernels::QUERN_LEVEL
