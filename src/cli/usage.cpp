#include "usage.hpp"

#include <string>
#include <vector>

#include "quern/base/suggest.hpp"

namespace quern::cli {

namespace {

/// The innermost command that the line named, and its whole name: "quern config show".
const CLI::App* innermost(const CLI::App& app, std::string& name) {
  const CLI::App* command = &app;
  name = app.get_name();
  for (std::vector<CLI::App*> named = command->get_subcommands(); !named.empty();
       named = command->get_subcommands()) {
    command = named.back();
    name += " " + command->get_name();
  }
  return command;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options(nullptr)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string name;
  const CLI::App* command = innermost(app, name);
  const std::string help = "`" + name + " --help` shows how it is used";
  const std::vector<std::string> commands = command_names(*command);

  const std::vector<std::string> extras = app.remaining(true);
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) && !commands.empty();
  if (!extras.empty() && (missing || dynamic_cast<const CLI::ExtrasError*>(&error))) {
    const std::string word = extras.front().substr(0, extras.front().find('='));
    if (word.starts_with("-") && word.size() > 1) {
      const std::string hint = word.starts_with("--") ? did_you_mean(word, option_names(*command)) : "";
      return Error(ErrorKind::config, name + ": unknown option " + printable(word),
                   hint.empty() ? help : hint);
    }
    if (!commands.empty())
      return Error(ErrorKind::config, name + ": unknown command " + in_quotes(word),
                   did_you_mean_or_list(word, commands));
    return Error(ErrorKind::config, name + ": " + in_quotes(word) + " is one argument too many", help);
  }
  if (missing)
    return Error(ErrorKind::config, name + ": a command is missing", did_you_mean_or_list("", commands));
  return Error(ErrorKind::config, name + ": " + error.what(), help);
}

}  // namespace quern::cli
