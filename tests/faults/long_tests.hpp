// How often a test tries.
#pragma once

#include <cstdlib>
#include <string_view>

namespace quern::test {

/// As often as the suite has time for; with QUERN_LONG_TESTS=1 as often as it takes to be sure.
inline int times(int usual, int with_long_tests) {
  const char* wanted = std::getenv("QUERN_LONG_TESTS");
  return wanted != nullptr && std::string_view(wanted) == "1" ? with_long_tests : usual;
}

}  // namespace quern::test
