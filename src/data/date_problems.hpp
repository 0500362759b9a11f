// Days as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "draws.hpp"
#include "quern/data/problems.hpp"

namespace quern {

/// A uniformly drawn day of 1900 to 2099 in a uniformly drawn way of writing.
Problem draw_date(Draws& draws);

/// Every character that a question or an answer may hold.
std::string date_characters();

/// Characters of the longest question.
std::int64_t longest_date();

}  // namespace quern
