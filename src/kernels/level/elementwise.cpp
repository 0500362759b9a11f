#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {

void fill(const Fill& a, int64_t begin, int64_t end) {
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(a.to + j, broadcast(a.value), k); });
}

void add_scaled(const AddScaled& a, int64_t begin, int64_t end) {
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    sink_n(a.to + j, a.factor * load_n(a.x + j, k), a.beta, k);
  });
}

namespace {

template <class To, class From>
void convert_as(const Convert& a, int64_t begin, int64_t end) {
  To* to = at<To>(a.to, 0);
  const From* from = at<From>(a.from, 0);
  columns(begin, end,
          [&](int64_t j, int64_t k) QUERN_LAMBDA { sink_n(to + j, load_n(from + j, k), a.beta, k); });
}

}  // namespace

void convert(const Convert& a, int64_t begin, int64_t end) {
  if (a.to.half && a.from.half) return convert_as<uint16_t, uint16_t>(a, begin, end);
  if (a.to.half) return convert_as<uint16_t, float>(a, begin, end);
  if (a.from.half) return convert_as<float, uint16_t>(a, begin, end);
  convert_as<float, float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
