// What `quern doctor` looks at: the machine, this program, the working directory, and whether the numbers
// that come out here are right.
#pragma once

#include <string>
#include <vector>

namespace quern::cli {

/// One thing that was tried.
struct Check {
  std::string name;
  bool passed = false;
  std::string found;  // what was seen, with what was allowed
};

/// The product, the gradient of a whole model, threads, and learning, on made-up data; about three seconds.
std::vector<Check> check_numbers();

/// Whether runs can be kept in `directory`: files are written, fsynced, renamed without replacing and locked
/// in a directory that is made for it and removed again. Also how long an fsync takes.
std::vector<Check> check_directory(const std::string& directory);

}  // namespace quern::cli
