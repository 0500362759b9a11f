#pragma once

#include <string>
#include <vector>

#include "quern/train/config.hpp"

namespace quern {

/// A mistake that shows only in several fields together (or that a range cannot state).
struct CrossProblem {
  std::vector<std::string> paths;  // the fields that take part; the first is the one named
  std::string what;
  std::string hint;
};

/// The mistakes of a config whose fields are each within their range.
std::vector<CrossProblem> cross_problems(const Config& config);

}  // namespace quern
