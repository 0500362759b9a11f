// exp, tanh, erf, erfc and sqrt by vectors. Bounds, held by tests/kernels/vmath_test.cpp against double on
// dense sweeps:
//   exp    1.5 ulp; 0 below -87.3365 (where the result leaves the normal numbers), inf above 88.7228
//   tanh   2 ulp;  erf  3 ulp
//   erfc   relative 1e-6 for 0 <= x <= 4, 1e-5 up to 9.1 (the rounding of x^2); 0 beyond 9.35
// NaN gives NaN; infinities give the limits, but for tanh, which gives NaN (see nan_unless_finite). The
// coefficients are minimax polynomials (Remez) of our own.
// Included only by src/kernels/level/*.cpp.
#pragma once

#include "simd.hpp"

namespace quern::kernels::QUERN_LEVEL {

QUERN_INLINE vf sqrt(vf x) {
  for (int i = 0; i < lanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}

QUERN_INLINE vf abs(vf x) { return (vf)((vi)x & 0x7fffffff); }

/// `magnitude` (not negative) with the sign of `of`.
QUERN_INLINE vf with_sign(vf magnitude, vf of) { return (vf)((vi)magnitude | ((vi)of & (-0x7fffffff - 1))); }

// NaN passes through both: a comparison with it is false.
QUERN_INLINE vf at_least(vf x, float low) { return x < low ? broadcast(low) : x; }
QUERN_INLINE vf at_most(vf x, float high) { return x > high ? broadcast(high) : x; }

/// 0 with the sign of x; NaN where x is not finite. A function that is finite far out, too, with a slope of
/// 0, would hide an infinity from all that comes behind it, the gradient included; with this added it does
/// not, and what it makes of any other x stays as it is, a negative zero too.
QUERN_INLINE vf nan_unless_finite(vf x) { return x * 0.0F; }

/// e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2, where it is a normal number; elsewhere anything.
QUERN_INLINE vf exp_normal(vf x) {
  const vf magic = broadcast(0x1.8p23F);  // adding it rounds to an integer, which then stands in the low bits
  const vf shifted = x * 0x1.715476p+0F + magic;
  const vf n = shifted - magic;
  const vf r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;  // ln 2 in two parts; the first times n is exact
  vf q = 1.3814610522676445e-3F * r + 8.368711131200449e-3F;
  q = q * r + 4.1668387489267406e-2F;
  q = q * r + 0.16666520679061853F;
  q = q * r + 0.49999993450972435F;
  const vf p = (r * r) * q + r + 1.0F;
  return (vf)((vu)p + ((vu)shifted << 23));
}

/// e^x for x <= 88.7228; anything for a larger one, and for NaN.
QUERN_INLINE vf exp_below(vf x) { return x < -87.3365F ? vf{} : exp_normal(x); }

QUERN_INLINE vf exp(vf x) {
  const vf y = x <= 88.72283F ? exp_normal(x) : x * __builtin_inff();  // inf, or NaN for NaN
  return x < -87.3365F ? vf{} : y;
}

QUERN_INLINE vf tanh(vf x) {
  const vf a = abs(x), s = x * x;
  vf p = -5.704987113886628e-3F * s + 2.0639087347686123e-2F;
  p = p * s - 5.373971511494785e-2F;
  p = p * s + 0.1333144219848037F;
  p = p * s - 0.33333281942022297F;
  const vf small = (p * s) * a + a;
  const vf large = 1.0F - 2.0F / (exp_normal(at_most(a + a, 80)) + 1.0F);
  return with_sign(a < 0.625F ? small : large, x) + nan_unless_finite(x);
}

/// erfc(z) / exp(-z^2) for z >= 0: a polynomial in t = 1 / (1 + 0.4 z).
QUERN_INLINE vf erfc_scaled(vf z) {
  const vf t = 1.0F / (z * 0.4F + 1.0F);
  vf p = 4.005418730439976e-2F * t - 0.1344178499854228F;
  p = p * t + 7.16287103886941e-2F;
  p = p * t + 0.10230916598432883F;
  p = p * t + 6.968951290456588e-2F;
  p = p * t + 0.19775542270999444F;
  p = p * t + 0.2007507847035162F;
  p = p * t + 0.2266056330436196F;
  p = p * t + 0.22562448965744494F;
  return p * t;
}

/// erfc(z) for z >= 0.
QUERN_INLINE vf erfc_positive(vf z) { return erfc_scaled(z) * exp(-(z * z)); }

QUERN_INLINE vf erf(vf x) {
  const vf a = abs(x), s = x * x;
  vf p = -6.749513767354008e-4F * s + 5.114345622224059e-3F;
  p = p * s - 2.6834624602185258e-2F;
  p = p * s + 0.1128337656497671F;
  p = p * s - 0.3761261875676835F;
  p = p * s + 1.1283791654964552F;
  return with_sign(a < 0.75F ? p * a : 1.0F - erfc_positive(a), x);
}

}  // namespace quern::kernels::QUERN_LEVEL
