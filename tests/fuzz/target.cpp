#include "target.hpp"

#include <algorithm>
#include <filesystem>

#include "../base/temporary_directory.hpp"
#include "quern/base/check.hpp"

namespace quern::test {
namespace {

std::vector<FuzzTarget>& targets() {
  static std::vector<FuzzTarget> all;
  return all;
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() { return targets(); }

RegisterTarget::RegisterTarget(FuzzTarget target) {
  std::vector<FuzzTarget>& all = targets();
  const auto place =
      std::lower_bound(all.begin(), all.end(), target.name,
                       [](const FuzzTarget& a, const std::string& name) { return a.name < name; });
  all.insert(place, std::move(target));
}

void run_target(const FuzzTarget& target, std::string_view input) {
  try {
    target.read(input);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::config && error.kind != ErrorKind::file) throw;
    require(*error.what() != '\0', "an error says what is wrong");
  }
}

std::string input_file(const std::string& name, std::string_view bytes) {
  static const TemporaryDirectory directory;
  put(directory / name, bytes);
  return (directory / name).string();
}

void require(bool promise, const char* what) {
  if (!promise) throw Bug(std::string("a reader broke a promise: ") + what);
}

}  // namespace quern::test
