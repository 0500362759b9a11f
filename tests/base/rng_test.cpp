#include "quern/base/rng.hpp"

#include <cmath>
#include <set>

#include "catch.hpp"

using namespace quern;

TEST_CASE("Philox4x32-10 gives the published known answers") {
  // Random123's kat_vectors.
  using Block = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams of other seeds, sites, steps, rows and blocks differ") {
  std::set<std::array<std::uint32_t, 4>> seen;
  for (const std::uint64_t seed : {1, 2})
    for (const char* site : {"a", "b", "decoder.blocks.0.attention"})
      for (const std::uint32_t step : {0U, 1U})
        for (const std::uint64_t row : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
          for (const std::uint32_t block : {0U, 1U})
            seen.insert(RandomStream(seed, site_hash(site), step).at(row, block));
  CHECK(seen.size() == 2 * 3 * 2 * 3 * 2);
}

TEST_CASE("below(n) is uniform and inside [0, n)") {
  constexpr std::uint64_t n = 7;
  std::array<int, n> count{};
  const RandomStream stream(3, 4, 5);
  for (std::uint64_t i = 0; i < 70000; ++i) {
    const auto r = stream.at(i, 0);
    count.at(below(n, r[0], r[1]))++;
  }
  // Deviation of a count: sqrt(70000 * 6 / 49) = 93; five of them.
  for (const int c : count) CHECK(std::abs(c - 10000) < 465);
  CHECK(below(n, 0, 0) == 0);
  CHECK(below(n, 0xffffffff, 0xffffffff) == n - 1);
}

TEST_CASE("the hash of a joined text goes on from the hash of its beginning") {
  CHECK(site_hash("decoder.blocks") == site_hash(".blocks", site_hash("decoder")));
  CHECK(site_hash("") == site_hash("", site_hash("")));
  CHECK(site_hash("a") == 0xaf63dc4c8601ec8cULL);  // FNV-1a's published value
}
