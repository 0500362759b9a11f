#pragma once

#include <cstdint>
#include <vector>

#include "quern/kernels/dropout.hpp"

namespace quern::reference {

/// (B,T,C) from ids (B,T), table (V,C), positions (P,C) or empty, starts (B,T) or empty.
template <class T>
std::vector<T> embedding(const std::vector<std::int32_t>& ids, std::size_t length,
                         const std::vector<T>& table, std::size_t cols, double scale,
                         const std::vector<T>& positions, std::size_t first, const Dropout& dropout,
                         const std::vector<std::int32_t>& starts = {}) {
  std::vector<T> out(ids.size() * cols);
  for (std::size_t r = 0; r < ids.size(); ++r) {
    const std::size_t start = starts.empty() ? 0 : static_cast<std::size_t>(starts[r]);
    for (std::size_t c = 0; c < cols; ++c) {
      T sum = T(scale) * table[static_cast<std::size_t>(ids[r]) * cols + c];
      if (!positions.empty()) sum += positions[(first + r % length - start) * cols + c];
      out[r * cols + c] = T(double(dropout.factor(r, static_cast<std::uint32_t>(c)))) * sum;
    }
  }
  return out;
}

}  // namespace quern::reference
