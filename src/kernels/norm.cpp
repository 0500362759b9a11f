#include "quern/kernels/norm.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

void residual_norm_forward(Tensor x, Tensor h, float* mean, float* rstd, Tensor stream, Tensor branch,
                           const float* gain, const float* bias, float eps, const Dropout& dropout,
                           NormKind kind) {
  QUERN_CHECK(stream && h && rstd != nullptr && gain != nullptr);
  QUERN_CHECK((mean != nullptr) == (kind == NormKind::layernorm));
  QUERN_CHECK(bias == nullptr || kind == NormKind::layernorm);
  QUERN_CHECK(x || !branch);
  const std::int64_t rows = stream.rows(), cols = stream.last();
  const NormForward a = {rows_of(x, rows, cols),
                         rows_of_any(h, rows, cols),
                         rows_of(stream, rows, cols),
                         rows_of_any(branch, rows, cols),
                         mean,
                         rstd,
                         gain,
                         bias,
                         eps,
                         cols,
                         dropout_key(dropout)};
  parallel_for(rows, row_grain(cols),
               [&](std::int64_t begin, std::int64_t end) { level().norm_forward(a, begin, end); });
}

std::size_t residual_norm_backward_scratch(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(partial_chunks(rows, cols) * 2 * cols);
}

void residual_norm_backward(Sink dstream, Sink dbranch, Sink dgain, Sink dbias, Tensor dx, Tensor dh,
                            Tensor x, const float* mean, const float* rstd, const float* gain,
                            const Dropout& dropout, std::span<float> scratch, NormKind kind) {
  QUERN_CHECK(dx || dh);
  QUERN_CHECK(!dh || (x && rstd != nullptr && gain != nullptr));
  QUERN_CHECK(!dh || (mean != nullptr) == (kind == NormKind::layernorm));
  const std::int64_t rows = (dh ? dh : dx).rows(), cols = (dh ? dh : dx).last();
  const NormBackward a = {rows_of(dstream.to, rows, cols),
                          rows_of_any(dbranch.to, rows, cols),
                          dstream.beta,
                          dbranch.beta,
                          rows_of(dx, rows, cols),
                          rows_of_any(dh, rows, cols),
                          dh ? rows_of(x, rows, cols) : Rows{},
                          mean,
                          rstd,
                          gain,
                          nullptr,
                          cols,
                          dropout_key(dropout)};
  const bool sums = dh && (dgain || dbias);
  QUERN_CHECK(!sums || scratch.size() >= residual_norm_backward_scratch(rows, cols), scratch.size(), rows,
              cols);
  const std::int64_t grain = partial_grain(rows, cols);
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    NormBackward chunk = a;
    if (sums) {
      chunk.sums = scratch.data() + begin / grain * 2 * cols;
      std::fill_n(chunk.sums, 2 * cols, 0.0F);
    }
    level().norm_backward(chunk, begin, end);
  });
  const std::int64_t chunks = sums ? partial_chunks(rows, cols) : 0;
  if (dgain) add_chunks(dgain.to.f32(), dgain.beta, scratch.data(), chunks, 2 * cols, cols);
  if (dbias) add_chunks(dbias.to.f32(), dbias.beta, scratch.data() + cols, chunks, 2 * cols, cols);
}

}  // namespace quern
