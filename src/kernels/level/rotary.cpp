#include "../attention_level.hpp"
#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

/// The sum over a head of f(j, k), where f gives `lanes` numbers, 0 beyond k.
template <class F>
QUERN_INLINE float head_sum(int64_t width, F f) {
  vf s = {};
  columns(0, width, [&](int64_t j, int64_t k) QUERN_LAMBDA { s += f(j, k); });
  return sum(s);
}

template <class T>
void forward_head(const Rotary& a, T* y, const T* x, const float* turn, float* rstd) {
  float scale = 1;
  if (a.gain != nullptr) {
    const float squares = head_sum(a.width, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      const vf v = load_n(x + j, k);
      return v * v;
    });
    *rstd = scale = 1.0F / __builtin_sqrtf(squares / static_cast<float>(a.width) + a.eps);
  }
  const auto normed = [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf v = load_n(x + j, k);
    return a.gain != nullptr ? v * scale * load_n(a.gain + j, k) : v;
  };
  if (turn == nullptr)
    return columns(0, a.width, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(y + j, normed(j, k), k); });
  const int64_t half = a.width / 2;
  columns(0, half, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf c = load_n(turn + j, k), s = load_n(turn + half + j, k);
    const vf first = normed(j, k), second = normed(half + j, k);
    store_n(y + j, first * c - second * s, k);
    store_n(y + half + j, second * c + first * s, k);
  });
}

/// put(j, k, v) gets dn: dy turned back.
template <class T, class Put>
QUERN_INLINE void turned_back(const Rotary& a, const T* dy, const float* turn, Put put) {
  if (turn == nullptr)
    return columns(0, a.width, [&](int64_t j, int64_t k) QUERN_LAMBDA { put(j, k, load_n(dy + j, k)); });
  const int64_t half = a.width / 2;
  columns(0, half, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf c = load_n(turn + j, k), s = load_n(turn + half + j, k);
    const vf first = load_n(dy + j, k), second = load_n(dy + half + j, k);
    put(j, k, first * c + second * s);
    put(half + j, k, second * c - first * s);
  });
}

template <class T>
void backward_head(const RotaryBackward& a, T* dx, const T* dy, const T* x, const float* turn, float rstd) {
  const Rotary& f = a.forward;
  if (f.gain == nullptr)
    return turned_back(f, dy, turn, [&](int64_t j, int64_t k, vf v) QUERN_LAMBDA {
      if (dx != nullptr) sink_n(dx + j, v, a.beta, k);
    });
  alignas(64) float dn[attention_max_width];
  turned_back(f, dy, turn, [&](int64_t j, int64_t k, vf v) QUERN_LAMBDA { store_n(dn + j, v, k); });
  const float mean = head_sum(f.width,
                              [&](int64_t j, int64_t k) QUERN_LAMBDA {
                                const vf d = load_n(dn + j, k), xhat = load_n(x + j, k) * rstd;
                                if (a.sums != nullptr)
                                  store_n(a.sums + j, load_n(a.sums + j, k) + d * xhat, k);
                                return d * load_n(f.gain + j, k) * xhat;
                              }) /
                     static_cast<float>(f.width);
  if (dx == nullptr) return;
  columns(0, f.width, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf g = load_n(dn + j, k) * load_n(f.gain + j, k), xhat = load_n(x + j, k) * rstd;
    sink_n(dx + j, rstd * (g - xhat * mean), a.beta, k);
  });
}

/// The rotations of a row; null: none.
QUERN_INLINE const float* turn_of(const Rotary& a, int64_t row) {
  return a.table != nullptr ? a.table + row % a.length * a.width : nullptr;
}

template <class T>
void forward_of(const Rotary& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r)
    for (int64_t h = 0; h < a.heads; ++h)
      forward_head(a, at<T>(a.y, r) + h * a.width, at<T>(a.x, r) + h * a.width, turn_of(a, r),
                   a.gain != nullptr ? a.rstd + r * a.heads + h : nullptr);
}

template <class T>
void backward_of(const RotaryBackward& a, int64_t begin, int64_t end) {
  const Rotary& f = a.forward;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t h = 0; h < f.heads; ++h) {
      T *dx = at<T>(a.dx, r), *x = at<T>(f.x, r);
      if (dx != nullptr) dx += h * f.width;
      if (x != nullptr) x += h * f.width;
      backward_head<T>(a, dx, at<T>(f.y, r) + h * f.width, x, turn_of(f, r),
                       f.gain != nullptr ? f.rstd[r * f.heads + h] : 1);
    }
}

}  // namespace

void rotary_forward(const Rotary& a, int64_t begin, int64_t end) {
  if (a.y.half) return forward_of<uint16_t>(a, begin, end);
  forward_of<float>(a, begin, end);
}

void rotary_backward(const RotaryBackward& a, int64_t begin, int64_t end) {
  if (a.forward.y.half) return backward_of<uint16_t>(a, begin, end);
  backward_of<float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
