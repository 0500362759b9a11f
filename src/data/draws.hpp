// The random numbers of one drawn thing (a question, an image), taken one after another.
#pragma once

#include <array>
#include <cstdint>

#include "quern/base/rng.hpp"

namespace quern {

class Draws {
 public:
  Draws(const RandomStream& stream, std::uint64_t row) : stream_(stream), row_(row) {}

  /// A uniform integer in [0, n), n >= 1.
  std::int64_t below(std::int64_t n) {
    const std::uint32_t high = next();
    return static_cast<std::int64_t>(quern::below(static_cast<std::uint64_t>(n), high, next()));
  }

  /// Uniform in [low, high).
  double between(double low, double high) { return low + (high - low) * uniform(next()); }

 private:
  std::uint32_t next() {
    if (used_ == bits_.size()) {
      bits_ = stream_.at(row_, block_++);
      used_ = 0;
    }
    return bits_[used_++];
  }

  RandomStream stream_;
  std::uint64_t row_;
  std::uint32_t block_ = 0;
  std::array<std::uint32_t, 4> bits_{};
  std::size_t used_ = 4;
};

}  // namespace quern
