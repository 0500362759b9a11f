#include "quern/watch/table.hpp"

#include <algorithm>
#include <cstddef>

#include "quern/base/check.hpp"
#include "quern/watch/terminal.hpp"

namespace quern {

namespace {

constexpr int least_name = 12;
constexpr int good_name = 20;

std::string cell_text(const std::string& text, bool ascii) {
  std::string cell = harmless(text, ascii);
  std::replace_if(
      cell.begin(), cell.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return cell;
}

/// The columns' widths, the first one's being what `width` leaves of what it needs; `gap` is set.
std::vector<int> widths_of(const std::vector<std::vector<std::string>>& lines, int width, int& gap) {
  std::vector<int> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  gap = 2;
  if (width == 0) return widths;
  int others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) others += widths[i];
  const int gaps = static_cast<int>(widths.size()) - 1;
  if (width - others - 2 * gaps < std::min(widths[0], good_name)) gap = 1;
  widths[0] = std::min(widths[0], std::max(least_name, width - others - gap * gaps));
  return widths;
}

}  // namespace

std::string draw(const Table& table, int width, bool ascii) {
  std::vector<std::vector<std::string>> lines(1);
  bool headed = false;
  for (const Column& column : table.columns) {
    lines[0].push_back(cell_text(column.header, ascii));
    headed = headed || !column.header.empty();
  }
  for (const std::vector<std::string>& row : table.rows) {
    QUERN_CHECK(row.size() == table.columns.size(), row.size(), table.columns.size());
    std::vector<std::string>& line = lines.emplace_back();
    for (const std::string& cell : row) line.push_back(cell_text(cell, ascii));
  }
  int gap = 2;
  const std::vector<int> widths = widths_of(lines, width, gap);
  std::string text;
  for (std::vector<std::string>& line : lines) {
    line[0] = fit_middle(line[0], widths[0], ascii);
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(static_cast<std::size_t>(widths[i] - display_width(line[i])), ' ');
      if (i > 0) out.append(static_cast<std::size_t>(gap), ' ');
      out += table.columns[i].right ? blanks + line[i] : line[i] + blanks;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    if (headed || &line != &lines[0]) text += out + "\n";
  }
  return text;
}

}  // namespace quern
