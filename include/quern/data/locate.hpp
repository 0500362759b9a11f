// Where the files that come with the program lie: the embedded corpus toy.txt and what belongs to it.
#pragma once

#include <filesystem>
#include <span>

namespace quern {

/// The directory of toy.txt: "../data" beside the executable's directory (a build in the source tree),
/// "../share/quern/data" (an installation, wherever it was moved), or the source tree's that the program was
/// built from. Throws Error(file) with the places that were tried.
std::filesystem::path data_directory();

/// The first of the candidates that holds a file toy.txt; throws Error(file) naming them when none does.
std::filesystem::path find_data_directory(std::span<const std::filesystem::path> candidates);

}  // namespace quern
