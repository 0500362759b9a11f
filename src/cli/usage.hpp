#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "quern/base/check.hpp"

namespace quern::cli {

/// Columns of a help page, and where its second column begins.
inline constexpr std::size_t help_width = 80, help_column = 30;

/// The help of the command that the line named, its long lines wrapped; examples stay as they are.
std::string help_text(const CLI::App& app);

/// A command line that CLI11 refused, as an error of ours: what is wrong, and the nearest command or option.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace quern::cli
