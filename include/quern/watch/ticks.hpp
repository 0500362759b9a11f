// Round numbers for an axis.
#pragma once

#include <string>
#include <vector>

namespace quern {

/// Multiples of 1, 2 or 5 times a power of ten.
struct Ticks {
  double step = 1;
  std::vector<double> values;  // rising
};

/// The ticks within [low, high]: as many as possible, at most `most` of them; whole numbers when `whole`.
/// Needs low < high, both of a size at which high - low keeps at least 9 digits, and most >= 1.
Ticks nice_ticks(double low, double high, int most, bool whole = false);

/// A label for one of `ticks`, with just the digits that tell its neighbours apart: "1.5", "20k", "2e-4".
std::string tick_label(double value, const Ticks& ticks);

}  // namespace quern
