#include <algorithm>

#include "quern/train/config.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

/// Each line is an argument of --set.
void read_sets(std::string_view input) {
  std::vector<std::string> sets;
  for (std::size_t at = 0; at <= input.size();) {
    const std::size_t end = std::min(input.find('\n', at), input.size());
    sets.emplace_back(input.substr(at, end - at));
    at = end + 1;
  }
  merge_config({}, std::nullopt, sets);
}

/// A command line is no file: a mebibyte of arguments is the user's own.
std::uint64_t memory(std::string_view input) { return 512 * default_memory(input); }

const RegisterTarget sets({"sets", read_sets, memory});

}  // namespace
}  // namespace quern::test
