#pragma once

#include <string>

namespace quern::cli {

/// The commit that the program was built from; "unknown" without git.
std::string commit();

/// What `quern --version` prints, with its final newline.
std::string version_text();

}  // namespace quern::cli
