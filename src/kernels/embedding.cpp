#include "quern/kernels/embedding.hpp"

#include <cmath>

#include "quern/kernels/elementwise.hpp"
#include "rows.hpp"

namespace quern {

using namespace kernels;

namespace {

constexpr std::int64_t slice =
    64;  // channels of one task of the backward: whole blocks of dropout, a few cache lines

struct Shape {
  std::int64_t rows, length, cols, vocabulary;  // B * T, T, C, V
};

Shape check(const Tensor& out, const std::int32_t* ids, const Tensor& table) {
  QUERN_CHECK(out.rank >= 2 && out.contiguous() && table.rank == 2 && table.contiguous(), out.rank,
              table.rank);
  const Shape s = {out.rows(), out.dim[out.rank - 2], out.last(), table.dim[0]};
  QUERN_CHECK(table.dim[1] == s.cols, table.dim[1], s.cols);
  for (std::int64_t r = 0; r < s.rows; ++r)
    QUERN_CHECK(ids[r] >= 0 && ids[r] < s.vocabulary, r, ids[r], s.vocabulary);
  return s;
}

/// The row of the first position on; null without positions.
float* places(const Tensor& positions, std::int64_t first, std::int64_t length, std::int64_t cols) {
  if (!positions) return nullptr;
  QUERN_CHECK(positions.rank == 2 && positions.contiguous() && positions.dim[1] == cols, positions.rank,
              cols);
  QUERN_CHECK(first >= 0 && first + length <= positions.dim[0], first, length, positions.dim[0]);
  return positions.f32() + first * cols;
}

void check_starts(const std::int32_t* starts, std::int64_t rows, std::int64_t length) {
  for (std::int64_t r = 0; starts != nullptr && r < rows; ++r)
    QUERN_CHECK(starts[r] >= 0 && starts[r] <= r % length, r, starts[r]);
}

/// to = beta * to, so that a sum can be added.
void start_sum(const Sink& sink) {
  if (!sink || sink.beta == 1) return;
  if (sink.beta == 0) return fill(sink.to, 0);
  add_scaled({sink.to, 0}, sink.to, sink.beta);
}

}  // namespace

void embedding_forward(Tensor out, const std::int32_t* ids, Tensor table, float scale, Tensor positions,
                       std::int64_t first_position, const Dropout& dropout, const std::int32_t* starts) {
  const Shape s = check(out, ids, table);
  check_starts(starts, s.rows, s.length);
  const Embedding a = {out.f32(),
                       ids,
                       table.f32(),
                       places(positions, first_position, s.length, s.cols),
                       starts,
                       scale,
                       s.length,
                       s.cols,
                       dropout_key(dropout)};
  parallel_for(s.rows, row_grain(s.cols),
               [&](std::int64_t begin, std::int64_t end) { level().embedding_forward(a, begin, end); });
}

void embedding_backward(Sink dtable, Sink dpositions, Tensor dout, const std::int32_t* ids, float scale,
                        std::int64_t first_position, const Dropout& dropout, const std::int32_t* starts) {
  if (!dtable && !dpositions) return;
  start_sum(dtable);
  start_sum(dpositions);
  QUERN_CHECK(dout.rank >= 2 && dout.contiguous(), dout.rank);
  const std::int64_t rows = dout.rows(), length = dout.dim[dout.rank - 2], cols = dout.last();
  if (dtable) check(dout, ids, dtable.to);
  check_starts(starts, rows, length);
  const EmbeddingBackward a = {dtable ? dtable.to.f32() : nullptr,
                               places(dpositions.to, first_position, length, cols),
                               dout.f32(),
                               ids,
                               starts,
                               scale,
                               rows,
                               length,
                               cols,
                               dropout_key(dropout)};
  parallel_for(cols, rows * cols <= chunk_elements ? cols : slice,
               [&](std::int64_t begin, std::int64_t end) { level().embedding_backward(a, begin, end); });
}

void sinusoidal_positions(Tensor table) {
  QUERN_CHECK(table.rank == 2 && table.contiguous() && table.dim[1] % 2 == 0, table.rank, table.dim[1]);
  const std::int64_t cols = table.dim[1], half = cols / 2;
  float* out = table.f32();
  for (std::int64_t p = 0; p < table.dim[0]; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(cols));
      out[p * cols + i] = static_cast<float>(std::sin(angle));
      out[p * cols + half + i] = static_cast<float>(std::cos(angle));
    }
  }
}

}  // namespace quern
