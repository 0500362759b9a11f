#include "quern/infer/stop_strings.hpp"

#include <algorithm>
#include <utility>

#include "quern/base/check.hpp"

namespace quern {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& s : strings_) QUERN_CHECK(!s.empty());
}

std::string StopStrings::push(std::string_view bytes) {
  std::string settled;
  for (const char byte : bytes) {
    if (found_) return settled;
    held_ += byte;
    std::size_t stop = 0, keep = 0;  // longest stop string, longest beginning of one, that held_ ends in
    for (const std::string& s : strings_) {
      for (std::size_t n = std::min(s.size(), held_.size()); n > 0; --n) {
        if (!held_.ends_with(std::string_view(s).substr(0, n))) continue;
        if (n == s.size()) stop = std::max(stop, n);
        keep = std::max(keep, n);
        break;
      }
    }
    found_ = stop > 0;
    settled.append(held_, 0, held_.size() - (found_ ? stop : keep));
    held_.erase(0, found_ ? held_.size() : held_.size() - keep);
  }
  return settled;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace quern
