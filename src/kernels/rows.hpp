// What the drivers of the row kernels share: views for a level, chunks, sums over chunks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "level.hpp"
#include "quern/base/parallel.hpp"
#include "quern/kernels/dropout.hpp"
#include "quern/kernels/tensor.hpp"

namespace quern::kernels {

/// Elements of a chunk: about ten microseconds of work, so that a small tensor stays on one thread.
constexpr std::int64_t chunk_elements = 16384;

/// Elements of a chunk whose result is added up afterwards: at most max_chunks, so that they fit on the
/// stack.
constexpr std::int64_t max_chunks = 1024;
constexpr std::int64_t long_grain(std::int64_t n) {
  return std::max(2 * chunk_elements, (n + max_chunks - 1) / max_chunks);
}

/// Rows of a chunk.
constexpr std::int64_t row_grain(std::int64_t cols) {
  return std::max<std::int64_t>(1, chunk_elements / std::max<std::int64_t>(1, cols));
}

/// lengths (B) in [0, most], or null.
inline void check_lengths(const std::int32_t* lengths, std::int64_t B, std::int64_t most) {
  for (std::int64_t b = 0; lengths != nullptr && b < B; ++b)
    QUERN_CHECK(lengths[b] >= 0 && lengths[b] <= most, b, lengths[b], most);
}

/// Rows of a chunk whose results are added up afterwards: at most 64 chunks, so that scratch is bounded.
constexpr std::int64_t partial_grain(std::int64_t rows, std::int64_t cols) {
  return std::max(row_grain(cols), (rows + 63) / 64);
}
constexpr std::int64_t partial_chunks(std::int64_t rows, std::int64_t cols) {
  const std::int64_t grain = partial_grain(rows, cols);
  return (rows + grain - 1) / grain;
}

/// A tensor as (rows, cols) with unit column stride; none for an empty one.
inline Rows rows_of_any(const Tensor& t, std::int64_t rows, std::int64_t cols) {
  if (!t) return {nullptr, 0, false};
  const Mat m = t.mat();
  QUERN_CHECK(m.rows == rows && m.cols == cols, m.rows, m.cols, rows, cols);
  QUERN_CHECK(m.col_stride == 1 || m.cols == 1, m.col_stride);
  return {m.data, m.row_stride, m.type == Type::bf16};
}

/// The same, of f32 only.
inline Rows rows_of(const Tensor& t, std::int64_t rows, std::int64_t cols) {
  QUERN_CHECK(!t || t.type == Type::f32);
  return rows_of_any(t, rows, cols);
}

/// The rows from row r on.
inline Rows from_row(Rows rows, std::int64_t r) {
  if (rows.data != nullptr) rows.data = static_cast<char*>(rows.data) + r * rows.stride * (rows.half ? 2 : 4);
  return rows;
}

inline DropoutKey dropout_key(const Dropout& d) {
  return {{d.stream.key[0], d.stream.key[1]}, d.stream.step, d.first_row, d.threshold, d.scale};
}

/// f(r, begin, end) for stretches [begin, end) of the columns of row r, in parallel. Tensors that are all
/// contiguous count as one long row 0.
template <class F>
void for_stretches(std::int64_t rows, std::int64_t cols, bool contiguous, F&& f) {
  if (contiguous) {
    parallel_for(rows * cols, chunk_elements,
                 [&](std::int64_t begin, std::int64_t end) { f(0, begin, end); });
    return;
  }
  parallel_for(rows, row_grain(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) f(r, 0, cols);
  });
}

/// out = sum over chunks, in their order, of partials[chunk * stride + c], + beta * out. The first chunk's
/// numbers are overwritten. No chunk at all is a sum of zero.
inline void add_chunks(float* out, float beta, float* partials, std::int64_t chunks, std::int64_t stride,
                       std::int64_t cols) {
  for (std::int64_t k = 1; k < chunks; ++k)
    for (std::int64_t c = 0; c < cols; ++c) partials[c] += partials[k * stride + c];
  for (std::int64_t c = 0; c < cols; ++c) {
    const float total = chunks == 0 ? 0 : partials[c];
    out[c] = beta == 0 ? total : total + beta * out[c];
  }
}

}  // namespace quern::kernels
