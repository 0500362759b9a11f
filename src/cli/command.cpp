#include "command.hpp"

#include <utility>

namespace quern::cli {

namespace {

std::string examples_text(const std::vector<std::string>& examples) {
  std::string text = "Examples:\n";
  for (const std::string& example : examples) text += "  " + example + "\n";
  return text;
}

CLI::App* add(CLI::App& parent, const std::string& name, const std::string& about,
              const std::vector<std::string>& examples) {
  CLI::App* command = parent.add_subcommand(name, about);
  command->footer(examples_text(examples));
  return command;
}

std::function<int()>& chosen() {
  static std::function<int()> run;
  return run;
}

}  // namespace

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& about,
                      const std::vector<std::string>& examples, std::function<int()> run) {
  CLI::App* command = add(parent, name, about, examples);
  command->callback([run = std::move(run)] { chosen() = run; });
  return command;
}

CLI::App* add_command_group(CLI::App& parent, const std::string& name, const std::string& about,
                            const std::vector<std::string>& examples) {
  CLI::App* group = add(parent, name, about, examples);
  group->require_subcommand(1);
  return group;
}

const std::function<int()>& chosen_command() { return chosen(); }

void add_config_options(CLI::App& command, ConfigOptions& options) {
  command.add_option("--config", options.files, "Config file; several are merged, the later one wins")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_set_option(command, options.sets);
}

void add_set_option(CLI::App& command, std::vector<std::string>& sets) {
  command.add_option("--set", sets, "One value, as in --set run.max_steps=20; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_color_option(CLI::App& command, std::string& colour) {
  command.add_option("--color", colour, "When to colour")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
}

std::string not_empty(const std::string& value) {
  return value.empty() ? "is empty; leave it away or name one" : "";
}

}  // namespace quern::cli
