// quern manual: the manual page, from what the commands say of themselves.
#include <algorithm>

#include "command.hpp"
#include "quern/train/config.hpp"
#include "version.hpp"

namespace quern::cli {

namespace {

/// Text as roff shows it: backslashes and hyphens as they are, no line that begins like a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }

std::string item(const std::string& head, const std::string& about) {
  return ".TP\n" + head + "\n" + roff(about) + "\n";
}

std::string option_item(const CLI::Option& option) {
  if (option.get_positional())
    return item("\\fI" + roff(option.get_name(true)) + "\\fR", option.get_description());
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "" : ", ") + bold("-" + name);
  for (const std::string& name : option.get_lnames())
    names += (names.empty() ? "" : ", ") + bold("--" + name);
  if (const std::string type = option.get_type_name(); !type.empty() && option.get_type_size() > 0)
    names += " \\fI" + roff(type) + "\\fR";
  std::string about = option.get_description();
  if (const std::string value = option.get_default_str(); !value.empty())
    about += " (default: " + value + ")";
  return item(names, about);
}

/// A command and those below it.
std::string command_text(const CLI::App& command, const std::string& path) {
  std::string text;
  const auto below = command.get_subcommands({});
  if (below.empty()) {
    text += ".SS " + bold(path) + "\n" + roff(command.get_description()) + ".\n";
    for (const CLI::Option* option : command.get_options())
      if (option->get_name() != "--help") text += option_item(*option);
    const std::string footer = command.get_footer();
    if (const std::size_t at = footer.find('\n'); at != std::string::npos)
      text += ".PP\nExamples:\n.PP\n.nf\n" + roff(footer.substr(at + 1)) + ".fi\n";
  }
  for (const CLI::App* each : below) text += command_text(*each, path + " " + each->get_name());
  return text;
}

/// Every field of a config, by section.
std::string fields_text() {
  Config defaults;
  const FieldList list = fields_of(defaults);
  std::string text;
  for (const Field& field : list.fields)
    text +=
        item(bold(field.path) + " " + roff("(" + type_text(field) + "; default " + value_text(field) + ")"),
             field.doc);
  return text;
}

std::string manual(const CLI::App& app) {
  std::string text =
      ".TH QUERN 1 \"\" \"" + roff(std::string("quern ") + QUERN_VERSION) + "\" \"User Commands\"\n";
  text += ".SH NAME\nquern \\- train Transformers from scratch on the CPU you own\n";
  text += ".SH SYNOPSIS\n" + bold("quern") + " \\fIcommand\\fR [\\fIoptions\\fR]\n";
  text += ".SH DESCRIPTION\n" + roff(app.get_description()) + "\n" +
          roff(
              "Data goes to standard output, all else to standard error. A config is a JSON file with "
              "comments that "
              "states what differs from the defaults.\n");
  text += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({}))
    text += command_text(*command, "quern " + command->get_name());
  text += ".SH CONFIGURATION\n" + fields_text();
  text += ".SH ENVIRONMENT\n";
  text += item(bold("QUERN_THREADS"), "Threads, over config files and below --set.");
  text += item(bold("QUERN_ISA"), "The level of our kernels: portable, v2, v3, v4 or amx.");
  text +=
      item(bold("NO_COLOR") + ", " + bold("CLICOLOR_FORCE"), "Not empty: no colour, colour in a pipe too.");
  text += item(bold("XDG_CACHE_HOME"), "Where quern/ keeps this machine's measured rates.");
  const std::string footer = app.get_footer();
  const std::size_t codes = footer.find("Exit codes: ");
  text += ".SH EXIT STATUS\n" + roff(footer.substr(codes + 12));
  return text;
}

}  // namespace

void add_manual(CLI::App& app) {
  add_command(app, "manual", "Print the manual page in roff",
              {"quern manual | man -l -", "quern manual > quern.1"}, [&app] {
                write_out(manual(app));
                return 0;
              });
}

}  // namespace quern::cli
