// Fuzz targets: each feeds any bytes to one reader. What leaves a target is a bug, and what a reader takes
// while it runs is bounded. libfuzzer.cpp drives one target without end, seeds_test.cpp all of them for a
// moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::test {

/// The memory that a reader may take for an input of that many bytes.
constexpr std::uint64_t default_memory(std::string_view input) { return 16 * input.size() + (1 << 20); }

struct FuzzTarget {
  std::string name;                      // also of its folder below seeds/
  void (*read)(std::string_view input);  // may throw Error of kind config or file
  std::uint64_t (*memory)(std::string_view input) = default_memory;
};

/// Those that are linked in, by name.
const std::vector<FuzzTarget>& fuzz_targets();

/// At namespace scope: adds a target to the list.
struct RegisterTarget {
  explicit RegisterTarget(FuzzTarget target);
};

/// Reads the input. An Error of a kind that a file or a config may end in is the reader's good right; all
/// else is passed on.
void run_target(const FuzzTarget& target, std::string_view input);

/// The path of a file of that name that holds these bytes, until the next call with the same name. The
/// directory goes when the process ends.
std::string input_file(const std::string& name, std::string_view bytes);

/// What a target learns about a reader's result beside that it came: a broken promise throws Bug.
void require(bool promise, const char* what);

/// The inputs that a target begins with: the files below seeds/, and those of binary formats, made here.
std::vector<std::string> seeds_of(const std::string& target);

}  // namespace quern::test
