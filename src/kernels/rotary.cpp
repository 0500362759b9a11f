#include "quern/kernels/rotary.hpp"

#include <cmath>

#include "rows.hpp"

namespace quern {

using namespace kernels;

namespace {

/// What forward and backward share: y and x hold the gradients dy and dx in backward.
Rotary rotary_of(const Tensor& like, const Tensor& table, const float* gain, std::int64_t heads) {
  QUERN_CHECK(like.rank == 3 && heads >= 1 && like.last() % heads == 0, like.rank, heads, like.last());
  Rotary a = {};
  a.heads = heads;
  a.width = like.last() / heads;
  a.length = like.dim[1];
  a.gain = gain;
  if (table) {
    QUERN_CHECK(table.contiguous() && table.rank == 2 && table.dim[0] == a.length &&
                    table.dim[1] == a.width && a.width % 2 == 0,
                table.dim[0], a.length, table.dim[1], a.width);
    a.table = table.f32();
  }
  return a;
}

}  // namespace

void rotary_table(Tensor table, std::int64_t first_position, double theta) {
  QUERN_CHECK(table.rank == 2 && table.contiguous() && table.dim[1] % 2 == 0, table.rank, table.dim[1]);
  const std::int64_t width = table.dim[1], half = width / 2;
  float* out = table.f32();
  for (std::int64_t i = 0; i < half; ++i) {
    const double speed = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    for (std::int64_t t = 0; t < table.dim[0]; ++t) {
      const double angle = static_cast<double>(first_position + t) * speed;
      out[t * width + i] = static_cast<float>(std::cos(angle));
      out[t * width + half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void rotary_forward(Tensor y, Tensor x, Tensor table, const float* gain, float* rstd, float eps,
                    std::int64_t heads) {
  QUERN_CHECK(y && x && y.type == x.type && (gain != nullptr) == (rstd != nullptr));
  const std::int64_t rows = x.rows(), cols = x.last();
  Rotary a = rotary_of(x, table, gain, heads);
  a.y = rows_of_any(y, rows, cols);
  a.x = rows_of_any(x, rows, cols);
  a.rstd = rstd;
  a.eps = eps;
  parallel_for(rows, row_grain(cols),
               [&](std::int64_t begin, std::int64_t end) { level().rotary_forward(a, begin, end); });
}

std::size_t rotary_backward_scratch(std::int64_t rows, std::int64_t cols, std::int64_t width) {
  return static_cast<std::size_t>(partial_chunks(rows, cols) * width);
}

void rotary_backward(Sink dx, Sink dgain, Tensor dy, Tensor x, Tensor table, const float* gain,
                     const float* rstd, std::int64_t heads, std::span<float> scratch) {
  QUERN_CHECK(dy && (gain == nullptr || (x && rstd != nullptr)) && (gain != nullptr || !dgain));
  QUERN_CHECK((!dx || dx.to.type == dy.type) && (!x || x.type == dy.type));
  const std::int64_t rows = dy.rows(), cols = dy.last();
  RotaryBackward a = {rotary_of(dy, table, gain, heads), rows_of_any(dx.to, rows, cols), dx.beta, nullptr};
  const std::int64_t width = a.forward.width;
  QUERN_CHECK(gain == nullptr || width <= attention_max_width, width);
  QUERN_CHECK(!dgain || scratch.size() >= rotary_backward_scratch(rows, cols, width), scratch.size(), rows);
  a.forward.y = rows_of_any(dy, rows, cols);
  a.forward.x = rows_of_any(gain != nullptr ? x : Tensor(), rows, cols);
  a.forward.rstd = const_cast<float*>(rstd);  // only read
  const std::int64_t grain = partial_grain(rows, cols);
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    RotaryBackward chunk = a;
    if (dgain) {
      chunk.sums = scratch.data() + begin / grain * width;
      std::fill_n(chunk.sums, width, 0.0F);
    }
    level().rotary_backward(chunk, begin, end);
  });
  if (dgain) add_chunks(dgain.to.f32(), dgain.beta, scratch.data(), partial_chunks(rows, cols), width, width);
}

}  // namespace quern
