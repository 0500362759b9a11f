#include "dropout.hpp"

#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

template <class To, class From>
void drop_as(const Drop& a, int64_t begin, int64_t end) {
  uint16_t bits[mask_tile];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t tile = 0; tile < a.cols; tile += mask_tile) {
      const int64_t n = a.cols - tile < mask_tile ? a.cols - tile : mask_tile;
      dropout_bits(bits, a.dropout, r, tile, n);
      To* to = at<To>(a.to, r) + tile;
      const From* x = at<From>(a.x, r) + tile;
      columns(0, n, [&](int64_t j, int64_t k) QUERN_LAMBDA {
        sink_n(to + j, load_n(x + j, k) * dropout_factor(bits + j, a.dropout), a.beta, k);
      });
    }
}

}  // namespace

void drop(const Drop& a, int64_t begin, int64_t end) {
  if (a.to.half && a.x.half) return drop_as<uint16_t, uint16_t>(a, begin, end);
  if (a.to.half) return drop_as<uint16_t, float>(a, begin, end);
  if (a.x.half) return drop_as<float, uint16_t>(a, begin, end);
  drop_as<float, float>(a, begin, end);
}

}  // namespace quern::kernels::QUERN_LEVEL
