// What a subcommand's file needs: each defines `void add_<name>(CLI::App& app)`, which main.cpp's list calls.
// There it adds its command and options; the work is done by the function given to add_command, after the
// whole line is read.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "quern/base/fields.hpp"

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

/// The config of the toy model: what commands take without --config. Throws Error(file) when it is not there.
std::string default_config();

/// --run DIR, and what it means: runs/latest where it is not given. Throws Error(config) when there is none.
void add_run_option(CLI::App& command, std::string& run);
std::filesystem::path run_or_latest(const std::string& run);

/// Only --set, for commands that take their config from elsewhere.
void add_set_option(CLI::App& command, std::vector<std::string>& sets);

/// --color auto|always|never.
void add_color_option(CLI::App& command, std::string& colour);

/// A number from the command line, read as the config's are, 1e3 for an integer too, with the same messages.
/// T: std::int64_t, std::uint64_t or double.
template <class T>
T number_of(const std::string& option, const std::string& text, FieldRange range);

/// An option of one number; its target may be narrower or optional. The help shows the target's value as the
/// default where it has one.
template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& target, FieldRange range,
                        const std::string& about);

/// An option of one of these words; the target's value is the default.
CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& target,
                        const std::vector<std::string>& words, const std::string& about);

/// An option of one text, which may not be empty; its `type` stands in the help, as in --run DIR.
CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& target,
                      const std::string& type, const std::string& about);

/// Writes to stdout at once. A reader that went away ends the program quietly (OutputClosed, caught by main);
/// any other failure is ErrorKind::io.
void write_out(std::string_view text);

/// Writes one JSON object and a newline: numbers read back to the same value, what is not finite is null, and
/// bytes that are not UTF-8 are U+FFFD; nothing in it is what a terminal would obey.
void write_json(const nlohmann::ordered_json& object);
/// Writes a line to stderr, without what a terminal would obey: it may hold names and texts from files. What
/// becomes of it is not known.
void say(std::string_view line);

/// Shows on a terminal how far the reading of a long text has come, until it is done.
std::function<void(std::int64_t done, std::int64_t total)> reading_line();

/// Flushes what went to stdout through std::cout or stdio instead; fails like write_out. Called by main at
/// the end.
void finish_output();

struct OutputClosed {};

// The commands, one file each.
void add_train(CLI::App& app);
void add_sample(CLI::App& app);
void add_eval(CLI::App& app);
void add_curves(CLI::App& app);
void add_report(CLI::App& app);
void add_runs(CLI::App& app);
void add_config(CLI::App& app);
void add_inspect(CLI::App& app);
void add_attention(CLI::App& app);
void add_bench(CLI::App& app);
void add_estimate(CLI::App& app);
void add_doctor(CLI::App& app);
void add_predict(CLI::App& app);
void add_translate(CLI::App& app);
void add_sweep(CLI::App& app);
void add_completions(CLI::App& app);
void add_manual(CLI::App& app);

template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& target, FieldRange range,
                        const std::string& about) {
  constexpr bool is_optional = !std::is_arithmetic_v<T>;
  using Narrow = typename std::conditional_t<is_optional, T, std::optional<T>>::value_type;
  using Wide = std::conditional_t<std::is_floating_point_v<Narrow>, double,
                                  std::conditional_t<std::is_signed_v<Narrow>, std::int64_t, std::uint64_t>>;
  const auto read = [&target, name, range](const std::string& text) {
    target = static_cast<Narrow>(number_of<Wide>(name, text, range));
  };
  CLI::Option* option = command.add_option_function<std::string>(name, read, about);
  option->type_name(std::is_floating_point_v<Narrow> ? "X" : "N");
  if constexpr (!is_optional) option->default_str(CLI::detail::to_string(target));
  return option;
}

}  // namespace quern::cli
