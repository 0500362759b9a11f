// Additive attention of one query a sequence: the step of a recurrent decoder.
#include "../recurrent_level.hpp"
#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

QUERN_INLINE int64_t visible(const AdditiveRead& a, int64_t b) {
  return a.lengths != nullptr ? a.lengths[b] : a.keys_count;
}

/// tanh(q + key) of columns j to j + k.
template <class T>
QUERN_INLINE vf hidden_of(const T* q, const T* key, int64_t j, int64_t k) {
  return tanh(load_n(q + j, k) + load_n(key + j, k));
}

/// The scores of sequence b become its weights, of which the row of `weights` has all S; gives their
/// logsumexp.
QUERN_INLINE float softmax(float* weights, int64_t n, int64_t all) {
  float top = -__builtin_inff();
  for (int64_t s = 0; s < n; ++s) top = weights[s] > top || weights[s] != weights[s] ? weights[s] : top;
  vf sums = {};
  columns(0, n, [&](int64_t s, int64_t k) QUERN_LAMBDA {
    const vf e = exp(load_n(weights + s, k) - top);
    store_n(weights + s, e, k);
    sums += only(e, k);
  });
  const float total = sum(sums);
  for (int64_t s = 0; s < n; ++s) weights[s] /= total;
  for (int64_t s = n; s < all; ++s) weights[s] = 0;
  return top + __builtin_logf(total);
}

template <class T>
void read_row(const AdditiveRead& a, int64_t b) {
  const int64_t n = visible(a, b);
  const T *q = at<T>(a.query, b), *keys = at<T>(a.keys, b), *memory = at<T>(a.memory, b);
  float* weights = at(a.weights, b);
  for (int64_t s = 0; s < n; ++s) {
    vf score = {};
    columns(0, a.width, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      score += load_n(a.v + j, k) * hidden_of(q, keys + s * a.key_row, j, k);
    });
    weights[s] = sum(score);
  }
  *at(a.lse, b) = softmax(weights, n, a.keys_count);
  columns(0, a.memory_width, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    vf total = {};
    for (int64_t s = 0; s < n; ++s) total += weights[s] * load_n(memory + s * a.memory_row + j, k);
    store_n(at<T>(a.context, b) + j, total, k);
  });
}

/// The sum over columns of x y; each may be of either type.
template <class X, class Y>
QUERN_INLINE float dot(const X* x, const Y* y, int64_t n) {
  vf s = {};
  columns(0, n, [&](int64_t j, int64_t k) QUERN_LAMBDA { s += load_n(x + j, k) * load_n(y + j, k); });
  return sum(s);
}

QUERN_INLINE void add(float* to, vf x, int64_t k) { store_n(to, load_n(to, k) + x, k); }

/// The part of one key; delta is the sum over columns of dcontext context.
template <class T>
QUERN_INLINE void key_backward(const AdditiveReadBackward& a, int64_t b, int64_t s, float delta) {
  const AdditiveRead& f = a.forward;
  const T *q = at<T>(f.query, b), *key = at<T>(f.keys, b) + s * f.key_row;
  const float* dcontext = at(a.dcontext, b);
  float *hidden = at(a.room, b), *dquery = at(a.dquery, b), *dv = at(a.dv, b);
  float *dkey = at(a.dkeys, b) + s * f.width, *dmemory = at(a.dmemory, b) + s * f.memory_width;
  vf score = {};
  columns(0, f.width, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf h = hidden_of(q, key, j, k);
    store_n(hidden + j, h, k);
    score += load_n(f.v + j, k) * h;
  });
  const float weight = exp(broadcast(sum(score) - *at(f.lse, b)))[0];
  const float dscore =
      weight * (dot(dcontext, at<T>(f.memory, b) + s * f.memory_row, f.memory_width) - delta);
  columns(0, f.width, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf h = load_n(hidden + j, k), through = dscore * load_n(f.v + j, k) * (1.0F - h * h);
    add(dquery + j, through, k);
    add(dkey + j, through, k);
    add(dv + j, dscore * h, k);
  });
  columns(0, f.memory_width,
          [&](int64_t j, int64_t k) QUERN_LAMBDA { add(dmemory + j, weight * load_n(dcontext + j, k), k); });
}

template <class T>
void read_of(const AdditiveRead& a, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) read_row<T>(a, b);
}

template <class T>
void read_backward_of(const AdditiveReadBackward& a, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    float* dquery = at(a.dquery, b);
    columns(0, a.forward.width, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(dquery + j, vf{}, k); });
    const float delta = dot(at(a.dcontext, b), at<T>(a.forward.context, b), a.forward.memory_width);
    for (int64_t s = 0; s < visible(a.forward, b); ++s) key_backward<T>(a, b, s, delta);
  }
}

}  // namespace

void additive_read(const AdditiveRead& a, int64_t begin, int64_t end) {
  if (a.keys.half) return read_of<uint16_t>(a, begin, end);
  read_of<float>(a, begin, end);
}

void additive_read_backward(const AdditiveReadBackward& a, int64_t begin, int64_t end) {
  if (a.forward.keys.half) return read_backward_of<uint16_t>(a, begin, end);
  read_backward_of<float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
