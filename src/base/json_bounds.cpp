#include "json_bounds.hpp"

#include <algorithm>

#include "quern/base/strict_json.hpp"

namespace quern {

std::string with_plain_spaces(std::string_view text, JsonComments comments) {
  std::string plain(text);
  const auto blank = [&plain](std::size_t begin, std::size_t end) {
    std::fill(plain.begin() + static_cast<std::ptrdiff_t>(begin),
              plain.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view ahead = text.substr(at);
    if (ahead[0] == '"') {
      for (++at; at < text.size() && text[at] != '"';) at += text[at] == '\\' ? 2 : 1;
      ++at;
    } else if (comments == JsonComments::blank && (ahead.starts_with("//") || ahead.starts_with("/*"))) {
      const bool line = ahead[1] == '/';
      const std::size_t end = text.find(line ? "\n" : "*/", at + 2);
      // The opening of a comment without an end stays, for the parser to complain of.
      if (!line && end == text.npos) at += 2;
      const std::size_t next = end == text.npos ? text.size() : end + (line ? 0 : 2);
      blank(at, next);
      at = next;
    } else {
      if (ahead[0] == '\n' || ahead[0] == '\r' || ahead[0] == '\t') plain[at] = ' ';
      ++at;
    }
  }
  return plain;
}

}  // namespace quern
