#include "usage.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
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

/// The options that CLI11's sentence names, in its order.
std::vector<const CLI::Option*> named_options(const CLI::App& command, const std::string& sentence) {
  std::vector<const CLI::Option*> found;
  for (std::size_t at = 0; at < sentence.size();) {
    const std::size_t end = std::min(sentence.find_first_of(" :", at), sentence.size());
    const std::string word = sentence.substr(at, end - at);
    for (const CLI::Option* option : command.get_options(nullptr))
      if (option->get_name() == word) found.push_back(option);
    at = end + 1;
  }
  return found;
}

/// "--run DIR", or "RUN" for an argument without a flag.
std::string usage_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (option.get_positional() || type.empty()) return option.get_positional() ? type : option.get_name();
  return option.get_name() + " " + type;
}

/// What is wrong with an option, in our words where we have some.
std::optional<Error> option_error(const CLI::App& command, const std::string& command_name,
                                  const CLI::ParseError& error, const std::string& help) {
  const auto named = named_options(command, error.what());
  if (named.empty()) return std::nullopt;
  const CLI::Option& option = *named.front();
  const std::string name =
      command_name + ": " + (option.get_positional() ? option.get_type_name() : option.get_name());
  if (dynamic_cast<const CLI::RequiredError*>(&error))
    return Error(ErrorKind::config, name + " is missing", usage_of(option) + ": " + option.get_description());
  if (dynamic_cast<const CLI::ExcludesError*>(&error) && named.size() > 1)
    return Error(ErrorKind::config, name + " and " + named[1]->get_name() + " exclude each other",
                 "give one of them");
  if (dynamic_cast<const CLI::ConversionError*>(&error))
    return Error(ErrorKind::config, name + " takes no value",
                 "it is on where it stands: " + usage_of(option));
  if (!dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return std::nullopt;
  if (option.get_expected_max() == 1 && option.results().size() > 1)
    return Error(ErrorKind::config, name + " stands " + std::to_string(option.results().size()) + " times",
                 "give it once");
  return Error(ErrorKind::config, name + " needs a value: " + usage_of(option), help);
}

/// A line of two columns, or of one, in lines of help_width columns.
std::string wrapped(const std::string& line) {
  const bool two = line.starts_with("  ") && line.size() > help_column && line[help_column - 1] == ' ';
  const std::string indent(two ? help_column : std::min(line.find_first_not_of(' '), help_column), ' ');
  std::string out, rest = line;
  while (rest.size() > help_width) {
    const std::size_t blank = rest.rfind(' ', help_width);
    if (blank == std::string::npos || blank <= indent.size()) break;  // a word that is too long
    out += rest.substr(0, blank) + "\n";
    rest = indent + rest.substr(blank + 1);
  }
  return out + rest + "\n";
}

}  // namespace

std::string help_text(const CLI::App& app) {
  std::istringstream lines(app.help());
  std::string text;
  bool examples = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(' ')) examples = line == "Examples:";
    text += examples ? line + "\n" : wrapped(line);
  }
  return text;
}

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
    const auto takes = [&](const char* option) { return command->get_option_no_throw(option) != nullptr; };
    const std::string meant = takes("--config") && word.ends_with(".json") ? "--config "
                              : takes("--run") && !word.empty()            ? "--run "
                                                                           : "";
    return Error(ErrorKind::config, name + ": " + in_quotes(extras.front()) + " is one argument too many",
                 meant.empty() ? help : "did you mean " + meant + shell_word(extras.front()) + "?");
  }
  if (missing)
    return Error(ErrorKind::config, name + ": a command is missing", did_you_mean_or_list("", commands));
  if (auto about_option = option_error(*command, name, error, help)) return *about_option;
  return Error(ErrorKind::config, name + ": " + error.what(), help);
}

}  // namespace quern::cli
