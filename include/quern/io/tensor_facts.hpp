// What the tensors of a safetensors file hold, in figures.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "quern/io/safetensors.hpp"

namespace quern::safetensors {

/// Numbers of a tensor: 1 for a scalar.
std::uint64_t element_count(const TensorInfo& tensor);

/// Of the finite values; NaN when there are none. With n of them, mean = sum x / n and
/// std = sqrt(sum (x - mean)^2 / n), both in double precision, infinite when a sum is beyond it.
struct TensorStatistics {
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t nonfinite = 0;  // infinities and NaNs
};

/// Reads a tensor in pieces of at most `piece` bytes, a multiple of 8. Nothing for types that are no plain
/// numbers or smaller than a byte: the 4-, 6- and 8-bit floats and complex numbers. A BOOL counts as 0 or 1.
std::optional<TensorStatistics> statistics(const Reader& reader, const TensorInfo& tensor,
                                           std::size_t piece = 1 << 20);

/// Tensors whose names differ in numbers between dots only and that share dtype and shape: the same parameter
/// of several layers.
struct TensorGroup {
  std::string name;  // "decoder.blocks.{0-3}.norm.weight"; a number that all share stands as it is
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;  // of all of them
};

/// The groups in the order of their names.
std::vector<TensorGroup> grouped(const std::vector<TensorInfo>& tensors);

}  // namespace quern::safetensors
