#include "columns.hpp"
#include "dropout.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

/// x = stream + dropout(branch) for one row.
template <class Branch>
void add_branch(float* x, const float* stream, const Branch* branch, const DropoutKey& dropout, int64_t row,
                int64_t cols) {
  uint16_t bits[mask_tile];
  for (int64_t tile = 0; tile < cols; tile += mask_tile) {
    const int64_t n = cols - tile < mask_tile ? cols - tile : mask_tile;
    if (dropout.threshold != 0) dropout_bits(bits, dropout, row, tile, n);
    columns(tile, tile + n, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      vf v = load_n(branch + j, k);
      if (dropout.threshold != 0) v *= dropout_factor(bits + (j - tile), dropout);
      store_n(x + j, v + load_n(stream + j, k), k);
    });
  }
}

/// The sum over a row of f(j, k), where f gives `lanes` numbers, 0 beyond k.
template <class F>
QUERN_INLINE float row_sum(int64_t cols, F f) {
  vf s[4] = {};
  int64_t j = 0;
  for (; j + 4 * lanes <= cols; j += 4 * lanes)
    for (int i = 0; i < 4; ++i) s[i] += f(j + i * lanes, int64_t{lanes});
  columns(j, cols, [&](int64_t c, int64_t k) QUERN_LAMBDA { s[0] += f(c, k); });
  return sum((s[0] + s[1]) + (s[2] + s[3]));
}

/// rstd * (g - mean(g) - xhat * mean(g * xhat)) over one row, as a function of x and dh.
struct RowGradient {
  float mean, rstd, mean_g, mean_gx;
};

/// The two means; dgain and dbias grow by the row's parts when `sums` is not null.
template <class Normed>
RowGradient norm_row_sums(const NormBackward& a, const Normed* dh, const float* x, int64_t r) {
  const float mean = a.mean != nullptr ? a.mean[r] : 0, rstd = a.rstd[r];
  vf g_sum = {}, gx_sum = {};
  columns(0, a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    const vf d = load_n(dh + j, k), xhat = (load_n(x + j, k) - mean) * rstd, g = d * load_n(a.gain + j, k);
    g_sum += g;
    gx_sum += g * xhat;
    if (a.sums != nullptr) {
      store_n(a.sums + j, load_n(a.sums + j, k) + d * xhat, k);
      store_n(a.sums + a.cols + j, load_n(a.sums + a.cols + j, k) + d, k);
    }
  });
  const float c = static_cast<float>(a.cols);
  return {mean, rstd, a.mean != nullptr ? sum(g_sum) / c : 0, sum(gx_sum) / c};
}

template <class Branch, class Normed>
void norm_forward_of(const NormForward& a, int64_t begin, int64_t end) {
  const float c = static_cast<float>(a.cols);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = at(a.stream, r);
    if (a.branch.data != nullptr) {
      add_branch(at(a.x, r), x, at<Branch>(a.branch, r), a.dropout, r, a.cols);
      x = at(a.x, r);
    }
    float mean = 0;
    if (a.mean != nullptr)
      mean = row_sum(a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA { return load_n(x + j, k); }) / c;
    const float squares = row_sum(a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      const vf d = only(load_n(x + j, k) - mean, k);
      return d * d;
    });
    const float rstd = 1.0F / __builtin_sqrtf(squares / c + a.eps);
    if (a.mean != nullptr) a.mean[r] = mean;
    a.rstd[r] = rstd;
    Normed* h = at<Normed>(a.h, r);
    columns(0, a.cols, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      vf v = (load_n(x + j, k) - mean) * rstd * load_n(a.gain + j, k);
      if (a.bias != nullptr) v += load_n(a.bias + j, k);
      store_n(h + j, v, k);
    });
  }
}

template <class Branch, class Normed>
void norm_backward_of(const NormBackward& a, int64_t begin, int64_t end) {
  uint16_t bits[mask_tile];
  const bool masked = a.dropout.threshold != 0 && a.dbranch.data != nullptr;
  for (int64_t r = begin; r < end; ++r) {
    const float *dx = at(a.dx, r), *x = at(a.x, r);
    const Normed* dh = at<Normed>(a.dh, r);
    float* dstream = at(a.dstream, r);
    Branch* dbranch = at<Branch>(a.dbranch, r);
    RowGradient row = {};
    if (dh != nullptr) row = norm_row_sums(a, dh, x, r);
    for (int64_t tile = 0; tile < a.cols; tile += mask_tile) {
      const int64_t n = a.cols - tile < mask_tile ? a.cols - tile : mask_tile;
      if (masked) dropout_bits(bits, a.dropout, r, tile, n);
      columns(tile, tile + n, [&](int64_t j, int64_t k) QUERN_LAMBDA {
        vf d = {};
        if (dh != nullptr) {
          const vf xhat = (load_n(x + j, k) - row.mean) * row.rstd;
          d = row.rstd * (load_n(dh + j, k) * load_n(a.gain + j, k) - row.mean_g - xhat * row.mean_gx);
        }
        if (dx != nullptr) d += load_n(dx + j, k);
        if (dstream != nullptr) sink_n(dstream + j, d, a.dstream_beta, k);
        if (masked) d *= dropout_factor(bits + (j - tile), a.dropout);
        if (dbranch != nullptr) sink_n(dbranch + j, d, a.dbranch_beta, k);
      });
    }
  }
}

/// Calls f with the types of the branch and of the normalised rows.
#define QUERN_NORM_OF(f, branch, normed)                                                                 \
  branch.half   ? normed.half ? f<uint16_t, uint16_t>(a, begin, end) : f<uint16_t, float>(a, begin, end) \
    : normed.half ? f<float, uint16_t>(a, begin, end)                                                    \
                : f<float, float>(a, begin, end)

}  // namespace

void norm_forward(const NormForward& a, int64_t begin, int64_t end) {
  QUERN_NORM_OF(norm_forward_of, a.branch, a.h);
}

void norm_backward(const NormBackward& a, int64_t begin, int64_t end) {
  QUERN_NORM_OF(norm_backward_of, a.dbranch, a.dh);
}

}  // namespace quern::kernels::QUERN_LEVEL
