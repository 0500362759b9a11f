#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "quern/data/images.hpp"

using namespace quern;

namespace {

/// The bytes of one image.
std::string image(const ImageSet& set, std::int64_t i) {
  const auto size = static_cast<std::ptrdiff_t>(set.height * set.width);
  return {set.pixels.begin() + i * size, set.pixels.begin() + (i + 1) * size};
}

/// The shape's name, from an image without noise: the shares of its box and of the box's middle that are ink.
std::string recognise(const ImageSet& set, std::int64_t i) {
  const std::int64_t n = set.width;
  const auto first = set.pixels.begin() + i * n * n;
  const auto at = [&](std::int64_t y, std::int64_t x) { return first[y * n + x]; };
  const int ink = *std::max_element(first, first + n * n);
  std::int64_t top = n, bottom = 0, left = n, right = 0, area = 0;
  for (std::int64_t y = 0; y < n; ++y) {
    for (std::int64_t x = 0; x < n; ++x) {
      if (at(y, x) != ink) continue;
      top = std::min(top, y), bottom = std::max(bottom, y);
      left = std::min(left, x), right = std::max(right, x);
      ++area;
    }
  }
  const double share =
      static_cast<double>(area) / static_cast<double>((bottom - top + 1) * (right - left + 1));
  if (share == 1) return "square";
  if (at((top + bottom) / 2, (left + right) / 2) != ink) return "ring";
  bool widest_in_middle = false;
  for (std::int64_t y = (top + bottom) / 2 - 1; y <= (top + bottom) / 2 + 1; ++y)
    widest_in_middle = widest_in_middle || at(y, left) == ink;
  if (!widest_in_middle) return "triangle";
  return share > 0.65 ? "circle" : "cross";
}

}  // namespace

TEST_CASE("each shape is what its label says, in about equal numbers", "[data]") {
  for (const std::int64_t size : {24, 64}) {
    const ImageSet set = draw_shapes({.size = size, .noise = 0}, Split::train, 0, 1000);
    REQUIRE(set.count == 1000);
    REQUIRE(static_cast<std::int64_t>(set.pixels.size()) == 1000 * size * size);
    std::vector<int> counts(set.names.size());
    for (std::int64_t i = 0; i < set.count; ++i) {
      const std::int32_t label = set.labels[static_cast<std::size_t>(i)];
      CHECK(recognise(set, i) == set.names.at(static_cast<std::size_t>(label)));
      ++counts[static_cast<std::size_t>(label)];
      const std::string pixels = image(set, i);
      CHECK(std::set<char>(pixels.begin(), pixels.end()).size() == 2);
    }
    for (const int count : counts) CHECK(std::abs(count - 200) < 5 * 13);  // standard deviation 12.6
  }
}

TEST_CASE("an image is a function of seed, split and index", "[data]") {
  const ShapeOptions options;
  const ImageSet all = draw_shapes(options, Split::train, 0, 2000);
  const ImageSet part = draw_shapes(options, Split::train, 500, 3);
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < all.count; ++i) seen.insert(image(all, i));
  CHECK(seen.size() == 2000);
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(image(part, i) == image(all, 500 + i));
    CHECK(part.labels[static_cast<std::size_t>(i)] == all.labels[static_cast<std::size_t>(500 + i)]);
  }
  const ImageSet held_out = draw_shapes(options, Split::val, 0, 2000);
  for (std::int64_t i = 0; i < held_out.count; ++i) CHECK(seen.count(image(held_out, i)) == 0);
  const ImageSet other = draw_shapes({.seed = 2}, Split::train, 0, 1);
  CHECK(image(other, 0) != image(all, 0));
}

TEST_CASE("noise moves pixels by no more than its share", "[data]") {
  const ImageSet clean = draw_shapes({.noise = 0}, Split::train, 0, 50);
  const ImageSet noisy = draw_shapes({.noise = 0.1}, Split::train, 0, 50);
  CHECK(clean.labels == noisy.labels);
  int largest = 0;
  double moved = 0;
  for (std::size_t i = 0; i < clean.pixels.size(); ++i) {
    const int by = std::abs(int{clean.pixels[i]} - int{noisy.pixels[i]});
    largest = std::max(largest, by);
    moved += by;
  }
  CHECK(largest <= 26);  // 0.1 * 255 and the rounding of both
  CHECK(largest >= 24);
  CHECK(moved / static_cast<double>(clean.pixels.size()) > 8);  // 12.7 but where black and white end it

  for (const ShapeOptions& bad :
       {ShapeOptions{.size = 11}, ShapeOptions{.size = 257}, ShapeOptions{.noise = 0.6}}) {
    CHECK_THROWS_AS(draw_shapes(bad, Split::train, 0, 1), Error);
  }
}
