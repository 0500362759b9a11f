#pragma once

#include <CLI/CLI.hpp>

#include "quern/base/check.hpp"

namespace quern::cli {

/// A command line that CLI11 refused, as an error of ours: what is wrong, and the nearest command or option.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace quern::cli
