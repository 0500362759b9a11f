// A roofline (Williams et al. 2009, "Roofline: an insightful visual performance model") as text.
#pragma once

#include <string>
#include <vector>

#include "quern/watch/terminal.hpp"

namespace quern::cli {

/// One operation: what it did a second, and its arithmetic for each byte of traffic.
struct RooflinePoint {
  std::string name;
  double gflops = 0, flops_per_byte = 0;
};

/// What arithmetic of one kind reaches at most.
struct Roof {
  std::string name;
  double gflops = 0;
};

/// The roofs, the slope that memory traffic sets below them, and the points as letters with their legend, on
/// two logarithmic axes: at most 80 columns, pure ASCII unless the terminal speaks UTF-8. Empty without
/// points.
std::string roofline(const std::vector<RooflinePoint>& points, const std::vector<Roof>& roofs,
                     double gigabytes_per_second, const Terminal& terminal);

}  // namespace quern::cli
