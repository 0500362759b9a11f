// A matrix of weights as characters: who looks at whom.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "quern/watch/terminal.hpp"

namespace quern {

/// The names of a matrix's rows and columns.
struct HeatmapLabels {
  std::vector<std::string> rows, columns;
};

/// One row of text for each row of `weights` (rows,columns): the row's label, a shade for each column
/// relative to the row's largest weight, and that weight. A header names the columns by the beginnings of
/// their labels. A terminal that is too narrow gets the last columns that fit, and where rows and columns
/// have the same names as many rows.
std::string heatmap(std::span<const float> weights, const HeatmapLabels& labels, const Terminal& terminal);

/// How many of the columns heatmap() shows.
std::size_t heatmap_size(const HeatmapLabels& labels, const Terminal& terminal);

/// A token's text as a label of one line: blanks and newlines become visible, what a terminal would obey
/// harmless.
std::string token_label(std::string_view text, bool ascii);

}  // namespace quern
