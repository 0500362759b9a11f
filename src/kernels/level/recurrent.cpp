#include "../recurrent_level.hpp"
#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

/// NaN for an infinite x. Where e^-x is too small to count, it may stay as it is at 87.
QUERN_INLINE vf sigmoid(vf x) {
  const vf z = at_least(-x, -87), e = z <= 88.72283F ? exp_normal(z) : broadcast(__builtin_inff());
  return 1.0F / (1.0F + e) + nan_unless_finite(x);
}

/// What dy of y = sigmoid(x) or tanh(x) is for x.
QUERN_INLINE vf through_sigmoid(vf dy, vf y) { return dy * y * (1.0F - y); }
QUERN_INLINE vf through_tanh(vf dy, vf y) { return dy * (1.0F - y * y); }

QUERN_INLINE bool reaches(const RecurrentReach& reach, int64_t b) {
  return reach.lengths == nullptr || reach.step < reach.lengths[b];
}

/// Numbers of a row that may be none: 0.
template <class T>
QUERN_INLINE vf load_or_zero(const T* row, int64_t j, int64_t k) {
  return row != nullptr ? load_n(row + j, k) : vf{};
}

template <class T>
QUERN_INLINE void zero(T* row, int64_t n) {
  columns(0, n, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(row + j, vf{}, k); });
}

/// The four gates of columns j to j + k as a row holds them, behind one another.
template <class T>
QUERN_INLINE void put4(T* row, int64_t C, int64_t j, int64_t k, vf first, vf second, vf third, vf fourth) {
  if (row == nullptr) return;
  store_n(row + j, first, k);
  store_n(row + C + j, second, k);
  store_n(row + 2 * C + j, third, k);
  store_n(row + 3 * C + j, fourth, k);
}

/// x of gate i.
template <class T>
QUERN_INLINE vf gate_of(const RecurrentStep& a, int64_t b, int64_t i, int64_t j, int64_t k) {
  const int64_t at_column = i * a.cols + j;
  return load_n(at<T>(a.gates, b) + at_column, k) + load_or_zero(at(a.more, b), at_column, k);
}

template <class T>
void gru_row(const RecurrentStep& a, int64_t b) {
  const int64_t C = a.cols;
  const float* p = at(a.product, b);
  float* h = at(a.state, b);
  T *out = at<T>(a.out, b), *saved = at<T>(a.activated, b);
  columns(0, C, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf r = sigmoid(gate_of<T>(a, b, 0, j, k) + load_n(p + j, k));
    const vf z = sigmoid(gate_of<T>(a, b, 1, j, k) + load_n(p + C + j, k));
    const vf hidden = load_n(p + 2 * C + j, k), n = tanh(gate_of<T>(a, b, 2, j, k) + r * hidden);
    const vf now = n + z * (load_n(h + j, k) - n);
    put4(saved, C, j, k, r, z, n, hidden);
    store_n(h + j, now, k);
    store_n(out + j, now, k);
  });
}

template <class T>
void lstm_row(const RecurrentStep& a, int64_t b) {
  const int64_t C = a.cols;
  const float* p = at(a.product, b);
  float *h = at(a.state, b), *c = h + C, *cells = at(a.cells, b);
  T *out = at<T>(a.out, b), *saved = at<T>(a.activated, b);
  columns(0, C, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf i = sigmoid(gate_of<T>(a, b, 0, j, k) + load_n(p + j, k));
    const vf f = sigmoid(gate_of<T>(a, b, 1, j, k) + load_n(p + C + j, k));
    const vf g = tanh(gate_of<T>(a, b, 2, j, k) + load_n(p + 2 * C + j, k));
    const vf o = sigmoid(gate_of<T>(a, b, 3, j, k) + load_n(p + 3 * C + j, k));
    const vf cell = f * load_n(c + j, k) + i * g, now = o * tanh(cell);
    put4(saved, C, j, k, i, f, g, o);
    if (cells != nullptr) store_n(cells + j, cell, k);
    store_n(c + j, cell, k);
    store_n(h + j, now, k);
    store_n(out + j, now, k);
  });
}

/// A sequence that has ended: its cells, too, stay as they are, for a step behind that reads them.
template <class T>
void keep_row(const RecurrentStep& a, int64_t b) {
  zero(at<T>(a.out, b), a.cols);
  const float* c = at(a.state, b) + a.cols;
  float* cells = at(a.cells, b);
  if (cells != nullptr)
    columns(0, a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(cells + j, load_n(c + j, k), k); });
}

template <class T>
void step_of(const RecurrentStep& a, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    if (!reaches(a.reach, b)) {
      keep_row<T>(a, b);
    } else if (a.lstm) {
      lstm_row<T>(a, b);
    } else {
      gru_row<T>(a, b);
    }
  }
}

template <class T, class D>
void gru_row_backward(const RecurrentStepBackward& a, int64_t b) {
  const int64_t C = a.cols;
  const T *saved = at<T>(a.activated, b), *before = at<T>(a.before, b);
  const D* dout = at<D>(a.dout, b);
  float* dstate = at(a.dstate, b);
  T *dx = at<T>(a.dgates, b), *dp = at<T>(a.dproduct, b);
  columns(0, C, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf r = load_n(saved + j, k), z = load_n(saved + C + j, k), n = load_n(saved + 2 * C + j, k),
             hidden = load_n(saved + 3 * C + j, k), h = load_or_zero(before, j, k);
    const vf dh = load_n(dstate + j, k) + load_or_zero(dout, j, k);
    const vf dn = through_tanh(dh * (1.0F - z), n);
    const vf dr = through_sigmoid(dn * hidden, r), dz = through_sigmoid(dh * (h - n), z);
    store_n(dx + j, dr, k);
    store_n(dp + j, dr, k);
    store_n(dx + C + j, dz, k);
    store_n(dp + C + j, dz, k);
    store_n(dx + 2 * C + j, dn, k);
    store_n(dp + 2 * C + j, dn * r, k);
    store_n(dstate + j, dh * z, k);
  });
}

template <class T, class D>
void lstm_row_backward(const RecurrentStepBackward& a, int64_t b) {
  const int64_t C = a.cols;
  const T* saved = at<T>(a.activated, b);
  const D* dout = at<D>(a.dout, b);
  const float *cells = at(a.cells, b), *before = at(a.cells_before, b);
  float *dstate = at(a.dstate, b), *dcells = dstate + C;
  columns(0, C, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf i = load_n(saved + j, k), f = load_n(saved + C + j, k), g = load_n(saved + 2 * C + j, k),
             o = load_n(saved + 3 * C + j, k), c = load_or_zero(before, j, k), t = tanh(load_n(cells + j, k));
    const vf dh = load_n(dstate + j, k) + load_or_zero(dout, j, k);
    const vf dc = load_n(dcells + j, k) + through_tanh(dh * o, t);
    put4(at<T>(a.dgates, b), C, j, k, through_sigmoid(dc * g, i), through_sigmoid(dc * c, f),
         through_tanh(dc * i, g), through_sigmoid(dh * t, o));
    store_n(dstate + j, vf{}, k);
    store_n(dcells + j, dc * f, k);
  });
}

template <class T, class D>
void step_backward_of(const RecurrentStepBackward& a, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    if (!reaches(a.reach, b)) {
      zero(at<T>(a.dgates, b), (a.lstm ? 4 : 3) * a.cols);
      if (!a.lstm) zero(at<T>(a.dproduct, b), 3 * a.cols);
    } else if (a.lstm) {
      lstm_row_backward<T, D>(a, b);
    } else {
      gru_row_backward<T, D>(a, b);
    }
  }
}

}  // namespace

void recurrent_step(const RecurrentStep& a, int64_t begin, int64_t end) {
  if (a.out.half) return step_of<uint16_t>(a, begin, end);
  step_of<float>(a, begin, end);
}

void recurrent_step_backward(const RecurrentStepBackward& a, int64_t begin, int64_t end) {
  if (a.activated.half && a.dout.half) return step_backward_of<uint16_t, uint16_t>(a, begin, end);
  if (a.activated.half) return step_backward_of<uint16_t, float>(a, begin, end);
  if (a.dout.half) return step_backward_of<float, uint16_t>(a, begin, end);
  step_backward_of<float, float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
