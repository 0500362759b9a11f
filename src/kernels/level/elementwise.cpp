#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

template <class T>
void fill_as(const Fill& a, int64_t begin, int64_t end) {
  T* to = at<T>(a.to, 0);
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(to + j, broadcast(a.value), k); });
}

template <class To, class From>
void add_scaled_as(const AddScaled& a, int64_t begin, int64_t end) {
  To* to = at<To>(a.to, 0);
  const From* x = at<From>(a.x, 0);
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf v = load_n(x + j, k);
    sink_n(to + j, a.factor == 1 ? v : a.factor * v, a.beta, k);
  });
}

}  // namespace

void fill(const Fill& a, int64_t begin, int64_t end) {
  if (a.to.half) return fill_as<uint16_t>(a, begin, end);
  fill_as<float>(a, begin, end);
}

void add_scaled(const AddScaled& a, int64_t begin, int64_t end) {
  if (a.to.half && a.x.half) return add_scaled_as<uint16_t, uint16_t>(a, begin, end);
  if (a.to.half) return add_scaled_as<uint16_t, float>(a, begin, end);
  if (a.x.half) return add_scaled_as<float, uint16_t>(a, begin, end);
  add_scaled_as<float, float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
