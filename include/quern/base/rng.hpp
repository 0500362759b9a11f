// Randomness as a pure function: Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1,
// 2, 3"). No state: the same number falls on the same element for any thread count, micro-batch split or
// resume.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace quern {

/// Ten rounds of Philox4x32.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// A 64-bit FNV-1a hash of a path such as "decoder.blocks.0.attention": what a site of randomness is called.
/// `h` is the hash of what stands before it: site_hash(b, site_hash(a)) is that of a and b joined.
constexpr std::uint64_t site_hash(std::string_view path, std::uint64_t h = 0xcbf29ce484222325ULL) {
  for (const char c : path) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

/// One stream of random numbers, f(seed, step, site, row, block): `key` mixes seed and site, `step` is the
/// training step. at(row, block) gives four independent 32-bit numbers.
struct RandomStream {
  std::array<std::uint32_t, 2> key{};
  std::uint32_t step = 0;

  constexpr RandomStream() = default;
  constexpr RandomStream(std::uint64_t seed, std::uint64_t site, std::uint32_t step_) : step(step_) {
    std::uint64_t z = seed + 0x9e3779b97f4a7c15ULL * (site | 1U);  // splitmix64's finaliser
    z = (z ^ site ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    key = {static_cast<std::uint32_t>(z), static_cast<std::uint32_t>(z >> 32)};
  }

  constexpr std::array<std::uint32_t, 4> at(std::uint64_t row, std::uint32_t block) const {
    return philox({block, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32), step}, key);
  }
};

/// Uniform in [0, 1) with 32 bits.
constexpr double uniform(std::uint32_t bits) { return bits * 0x1p-32; }

__extension__ using uint128 = unsigned __int128;

/// A uniform integer in [0, n), n >= 1, from 64 random bits (multiply-shift; bias below n / 2^64).
constexpr std::uint64_t below(std::uint64_t n, std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32) | low;
  return static_cast<std::uint64_t>((static_cast<uint128>(bits) * n) >> 64);
}

}  // namespace quern
