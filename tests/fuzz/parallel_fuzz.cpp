#include "quern/data/records.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

/// Two files, parted by the first byte 0.
void read_pair(std::string_view input) {
  const std::size_t end = input.find('\0');
  const std::string_view target = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
  const RecordSet set =
      read_parallel(input_file("source", input.substr(0, end)), input_file("target", target));
  std::int64_t seen = 0;
  set.each([&seen](const Record& record) {
    require(!record.text.empty() && !record.target.empty(), "no side is empty");
    ++seen;
  });
  require(seen > 0 && seen == set.size(), "a set of records is not empty, and knows its size");
}

const RegisterTarget parallel({"parallel", read_pair});

}  // namespace
}  // namespace quern::test
