#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "draws.hpp"
#include "option_check.hpp"
#include "quern/data/images.hpp"

namespace quern {
namespace {

constexpr std::array<std::string_view, 5> kShapes = {"circle", "square", "triangle", "cross", "ring"};

/// Whether a point lies in the shape; the shape has its centre at 0 and reaches from -1 to 1.
bool is_inside(std::size_t shape, double x, double y) {
  const double distance = std::sqrt(x * x + y * y);
  if (std::max(std::abs(x), std::abs(y)) > 1) return false;
  switch (shape) {
    case 0: return distance <= 1;
    case 1: return true;
    case 2: return 2 * std::abs(x) <= y + 1;  // its top at y = -1
    case 3: return std::min(std::abs(x), std::abs(y)) <= 0.3;
    default: return distance <= 1 && distance >= 0.6;
  }
}

}  // namespace

ImageSet draw_shapes(const ShapeOptions& options, Split split, std::int64_t first, std::int64_t count) {
  constexpr std::uint64_t site = site_hash("data.shapes");
  check_option("shapes", "size", options.size, between(12, 256));
  check_option("shapes", "noise", options.noise, between(0, 0.5));
  QUERN_CHECK(first >= 0 && count >= 1, first, count);
  const std::int64_t size = options.size;
  ImageSet set{.count = count,
               .height = size,
               .width = size,
               .channels = 1,
               .pixels = {},
               .labels = {},
               .names = {kShapes.begin(), kShapes.end()}};
  set.pixels.reserve(static_cast<std::size_t>(count * size * size));
  const RandomStream stream(options.seed, site, split == Split::train ? 0 : 1);
  for (std::int64_t i = first; i < first + count; ++i) {
    Draws draws(stream, static_cast<std::uint64_t>(i));
    const auto shape = static_cast<std::size_t>(draws.below(std::ssize(kShapes)));
    const auto side = static_cast<double>(size);
    const double radius = side * draws.between(0.2, 0.4);
    const double x0 = draws.between(radius, side - radius), y0 = draws.between(radius, side - radius);
    const double ground = draws.between(0, 0.3), ink = draws.between(0.6, 1);
    for (std::int64_t y = 0; y < size; ++y) {
      for (std::int64_t x = 0; x < size; ++x) {
        const bool inside = is_inside(shape, (static_cast<double>(x) + 0.5 - x0) / radius,
                                      (static_cast<double>(y) + 0.5 - y0) / radius);
        const double light = (inside ? ink : ground) + draws.between(-options.noise, options.noise);
        set.pixels.push_back(static_cast<std::uint8_t>(std::lround(255 * std::clamp(light, 0.0, 1.0))));
      }
    }
    set.labels.push_back(static_cast<std::int32_t>(shape));
  }
  return set;
}

}  // namespace quern
