// Views on numbers that somebody else owns. The alphabet of shapes, used in every comment:
//   B batch, T query length, S key length, C = d_model, H heads, D = d_k, F = d_ff, V vocabulary, R rows (all
//   leading axes flattened).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "quern/base/bf16.hpp"
#include "quern/base/check.hpp"

namespace quern {

enum class Type : std::uint8_t { f32, bf16 };

constexpr std::int64_t size_of(Type type) { return type == Type::f32 ? 4 : 2; }

/// A matrix by strides (in elements): element (i, j) lies at data + i * row_stride + j * col_stride.
struct Mat {
  void* data = nullptr;
  Type type = Type::f32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0, col_stride = 1;

  /// The transpose: the same numbers, strides exchanged.
  Mat t() const { return {data, type, cols, rows, col_stride, row_stride}; }

  /// Rows [begin, begin + n).
  Mat row_range(std::int64_t begin, std::int64_t n) const {
    QUERN_CHECK(begin >= 0 && n >= 0 && begin + n <= rows, begin, n, rows);
    Mat part = *this;
    part.data = static_cast<char*>(data) + begin * row_stride * size_of(type);
    part.rows = n;
    return part;
  }

  float* f32() const {
    QUERN_CHECK(type == Type::f32);
    return static_cast<float*>(data);
  }
};

/// A view of up to four axes, strides in elements. An empty Tensor (data == nullptr) stands for "none".
struct Tensor {
  static constexpr int max_rank = 4;

  void* data = nullptr;
  Type type = Type::f32;
  int rank = 0;
  std::int64_t dim[max_rank] = {};
  std::int64_t stride[max_rank] = {};

  Tensor() = default;

  /// A contiguous view, last axis fastest.
  Tensor(void* data_, Type type_, std::span<const std::int64_t> shape) : data(data_), type(type_) {
    QUERN_CHECK(shape.size() <= max_rank, shape.size());
    rank = static_cast<int>(shape.size());
    std::int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      dim[i] = shape[static_cast<std::size_t>(i)];
      stride[i] = step;
      step *= dim[i];
    }
  }
  Tensor(float* data_, std::initializer_list<std::int64_t> shape)
      : Tensor(data_, Type::f32, std::span(shape.begin(), shape.size())) {}

  explicit operator bool() const { return data != nullptr; }

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim[i];
    return n;
  }
  std::int64_t bytes() const { return size() * size_of(type); }
  std::int64_t last() const { return rank == 0 ? 1 : dim[rank - 1]; }

  /// All leading axes flattened: R.
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (int i = 0; i + 1 < rank; ++i) n *= dim[i];
    return n;
  }

  bool contiguous() const {
    std::int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim[i] != 1 && stride[i] != step) return false;
      step *= dim[i];
    }
    return true;
  }

  /// The numbers as floats; a bug when the type is another.
  float* f32() const {
    QUERN_CHECK(type == Type::f32);
    return static_cast<float*>(data);
  }

  /// Where the element lies that is `offset` elements behind the first, whatever the type.
  char* at(std::int64_t offset) const { return static_cast<char*>(data) + offset * size_of(type); }

  /// (R, last) with one stride between rows; a bug when the leading axes do not flatten.
  Mat mat() const {
    QUERN_CHECK(rank >= 1, rank);
    for (int i = 0; i + 2 < rank; ++i)
      QUERN_CHECK(dim[i] == 1 || stride[i] == stride[i + 1] * dim[i + 1], i, stride[i], stride[i + 1],
                  dim[i + 1]);
    return {data, type, rows(), last(), rank >= 2 ? stride[rank - 2] : last(), stride[rank - 1]};
  }

  /// Columns [begin, begin + n) of the last axis: (…, n), the strides of the whole.
  Tensor columns(std::int64_t begin, std::int64_t n) const {
    QUERN_CHECK(rank >= 1 && begin >= 0 && begin + n <= last(), begin, n, last());
    Tensor part = *this;
    part.data = at(begin * stride[rank - 1]);
    part.dim[rank - 1] = n;
    return part;
  }

  /// Position t of each sequence of (B,T,C)  // (B,C), the strides of the whole; none of none.
  Tensor step(std::int64_t t) const {
    if (data == nullptr) return {};
    QUERN_CHECK(rank == 3 && t >= 0 && t < dim[1], rank, t, dim[1]);
    Tensor part = *this;
    part.data = at(t * stride[1]);
    part.rank = 2;
    part.dim[1] = dim[2], part.stride[1] = stride[2];
    return part;
  }

  /// (…, H * D) seen as (…, H, D).
  Tensor split_last(std::int64_t heads) const {
    QUERN_CHECK(rank >= 1 && rank < max_rank && last() % heads == 0, rank, last(), heads);
    Tensor out = *this;
    out.rank = rank + 1;
    out.dim[rank - 1] = heads;
    out.dim[rank] = last() / heads;
    out.stride[rank] = stride[rank - 1];
    out.stride[rank - 1] = out.dim[rank] * stride[rank - 1];
    return out;
  }
};

inline bool same_shape(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dim[i] != b.dim[i]) return false;
  return true;
}

/// Where a gradient goes: to = gradient + beta * to. beta is 0 (overwrite, whatever is there, NaN too) for
/// the first writer and 1 for later ones. An empty sink means that nobody wants this gradient.
struct Sink {
  Tensor to;
  float beta = 0;

  explicit operator bool() const { return static_cast<bool>(to); }
};

}  // namespace quern
