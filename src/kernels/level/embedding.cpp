#include "columns.hpp"
#include "dropout.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

constexpr int64_t ahead =
    8;  // rows that are fetched early: the strided and the scattered ones defeat the hardware

QUERN_INLINE void prefetch(const float* p, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(p + i);
}

/// The position of row r.
QUERN_INLINE int64_t position(int64_t r, int64_t length, const int32_t* starts) {
  return r % length - (starts != nullptr ? starts[r] : 0);
}

}  // namespace

void embedding_forward(const Embedding& a, int64_t begin, int64_t end) {
  uint16_t bits[mask_tile];
  for (int64_t r = begin; r < end; ++r) {
    const float* token = a.table + a.ids[r] * a.cols;
    const float* place = a.places == nullptr ? nullptr : a.places + position(r, a.length, a.starts) * a.cols;
    float* out = a.out + r * a.cols;
    if (r + 2 < end) prefetch(a.table + a.ids[r + 2] * a.cols, a.cols);
    for (int64_t tile = 0; tile < a.cols; tile += mask_tile) {
      const int64_t n = a.cols - tile < mask_tile ? a.cols - tile : mask_tile;
      if (a.dropout.threshold != 0) dropout_bits(bits, a.dropout, r, tile, n);
      columns(tile, tile + n, [&](int64_t j, int64_t k) QUERN_LAMBDA {
        vf v = a.scale * load_n(token + j, k);
        if (place != nullptr) v += load_n(place + j, k);
        if (a.dropout.threshold != 0) v *= dropout_factor(bits + (j - tile), a.dropout);
        store_n(out + j, v, k);
      });
    }
  }
}

void embedding_backward(const EmbeddingBackward& a, int64_t begin, int64_t end) {
  uint16_t bits[mask_tile];
  for (int64_t tile = begin; tile < end; tile += mask_tile) {
    const int64_t n = end - tile < mask_tile ? end - tile : mask_tile;
    for (int64_t r = 0; r < a.rows; ++r) {
      if (r + ahead < a.rows) {
        prefetch(a.dout + (r + ahead) * a.cols + tile, n);
        if (a.dtable != nullptr) prefetch(a.dtable + a.ids[r + ahead] * a.cols + tile, n);
      }
      if (a.dropout.threshold != 0) dropout_bits(bits, a.dropout, r, tile, n);
      const float* dout = a.dout + r * a.cols;
      float* token = a.dtable == nullptr ? nullptr : a.dtable + a.ids[r] * a.cols;
      float* place = a.dplaces == nullptr ? nullptr : a.dplaces + position(r, a.length, a.starts) * a.cols;
      columns(tile, tile + n, [&](int64_t j, int64_t k) QUERN_LAMBDA {
        vf d = load_n(dout + j, k);
        if (a.dropout.threshold != 0) d *= dropout_factor(bits + (j - tile), a.dropout);
        if (place != nullptr) store_n(place + j, load_n(place + j, k) + d, k);
        if (token != nullptr) store_n(token + j, load_n(token + j, k) + a.scale * d, k);
      });
    }
  }
}

}  // namespace quern::kernels::QUERN_LEVEL
