// Tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace quern {

struct Column {
  std::string header;
  bool right = false;  // numbers
};

/// Rows of as many cells as there are columns. The first column holds names.
struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

/// The table, the headers first unless all are empty, every line with a newline and without blanks at its
/// end. Lines have at most `width` columns (0: no limit): names are cut in the middle, but not below 12
/// columns, and the gap between columns is one blank instead of two where names would have fewer than 20.
/// Cells and headers may come from files: they are made harmless, newlines and tabs too. `ascii`: nothing
/// beyond ASCII.
std::string draw(const Table& table, int width, bool ascii = false);

}  // namespace quern
