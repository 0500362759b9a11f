// What a subcommand's file needs: each defines `void add_<name>(CLI::App& app)`, which main.cpp's list calls.
// There it adds its command and options; the work is done by the function given to add_command, after the
// whole line is read.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

/// Adds the subcommand `name`. `run` does its work and returns the exit code (0, or 128 + a signal; failures
/// are thrown as Error). `examples` are whole command lines, shown under its help.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& about,
                      const std::vector<std::string>& examples, std::function<int()> run);

/// The same for a command that only groups others (quern config …): without a subcommand it is a usage error.
CLI::App* add_command_group(CLI::App& parent, const std::string& name, const std::string& about,
                            const std::vector<std::string>& examples);

/// The `run` of the command that the line named; empty when it named none.
const std::function<int()>& chosen_command();

/// --config FILE and --set KEY=VALUE, both repeatable, each taking exactly one value.
struct ConfigOptions {
  std::vector<std::string> files;
  std::vector<std::string> sets;
};
void add_config_options(CLI::App& command, ConfigOptions& options);

/// Only --set, for commands that take their config from elsewhere.
void add_set_option(CLI::App& command, std::vector<std::string>& sets);

/// --color auto|always|never.
void add_color_option(CLI::App& command, std::string& colour);

/// For ->check: an empty path is a mistake.
std::string not_empty(const std::string& value);

/// Writes to stdout at once. A reader that went away ends the program quietly (OutputClosed, caught by main);
/// any other failure is ErrorKind::io.
void write_out(std::string_view text);

/// Writes one JSON object and a newline: numbers read back to the same value, what is not finite is null, and
/// bytes that are not UTF-8 are U+FFFD.
void write_json(const nlohmann::ordered_json& object);

/// Flushes what went to stdout through std::cout or stdio instead; fails like write_out. Called by main at
/// the end.
void finish_output();

/// "warning: …" on stderr; text from files is made harmless.
void warn(const std::string& text);

struct OutputClosed {};

// The commands, one file each.
void add_train(CLI::App& app);
void add_sample(CLI::App& app);
void add_eval(CLI::App& app);
void add_curves(CLI::App& app);
void add_runs(CLI::App& app);
void add_config(CLI::App& app);
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);
void add_doctor(CLI::App& app);

}  // namespace quern::cli
