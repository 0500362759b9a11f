#include "quern/watch/heatmap.hpp"

#include <algorithm>
#include <cmath>

#include "quern/base/check.hpp"
#include "quern/watch/format.hpp"

namespace quern {
namespace {

constexpr int longest_label = 12, number_width = 7;

int label_width(const std::vector<std::string>& labels) {
  int width = 1;
  for (const std::string& label : labels) width = std::max(width, display_width(label));
  return std::min(width, longest_label);
}

std::string padded(const std::string& text, int width) {
  return std::string(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ') + text;
}

/// The shade of a share in [0, 1]; blank for 0 alone.
const char* shade(double share, bool utf8) {
  static constexpr const char *blocks[] = {" ", "░", "▒", "▓", "█"}, *letters[] = {" ", ".", ":", "*", "#"};
  const auto level = static_cast<std::size_t>(std::clamp(std::ceil(share * 4), 0.0, 4.0));
  return (utf8 ? blocks : letters)[level];
}

}  // namespace

std::string token_label(std::string_view text, bool ascii) {
  std::string label;
  for (const char c : text) switch (c) {
      case ' ': label += ascii ? "_" : "␣"; break;
      case '\n': label += "\\n"; break;
      case '\t': label += "\\t"; break;
      default: label += c;
    }
  return fit(harmless(label, ascii), longest_label, ascii);
}

std::size_t heatmap_size(const HeatmapLabels& labels, const Terminal& terminal) {
  const std::size_t n = labels.columns.size();
  if (!terminal.tty) return n;
  const int columns = terminal.width - label_width(labels.rows) - 1 - number_width;
  return std::min(n, static_cast<std::size_t>(std::max(1, columns)));
}

std::string heatmap(std::span<const float> weights, const HeatmapLabels& labels, const Terminal& terminal) {
  const auto& [rows, columns] = labels;
  const std::size_t n = columns.size(), from = n - heatmap_size(labels, terminal);
  QUERN_CHECK(n > 0 && weights.size() == rows.size() * n, weights.size(), rows.size(), n);
  const int width = label_width(rows);
  std::string text(static_cast<std::size_t>(width + 1), ' ');
  for (std::size_t s = from; s < n; ++s) {
    const std::string first = fit(columns[s], 1, !terminal.utf8);
    text += display_width(columns[s]) == 1 ? columns[s] : display_width(first) == 1 ? first : " ";
  }
  text += "  max\n";
  for (std::size_t t = rows == columns ? from : 0; t < rows.size(); ++t) {
    const auto row = weights.subspan(t * n, n);
    const double largest = double(*std::max_element(row.begin(), row.end()));
    text += padded(rows[t], width) + ' ';
    for (std::size_t s = from; s < n; ++s)
      text += shade(largest > 0 ? double(row[s]) / largest : 0, terminal.utf8);
    text += "  " + fixed(largest, 3) + '\n';
  }
  return text;
}

}  // namespace quern
