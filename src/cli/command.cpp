#include "command.hpp"

#include <algorithm>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"
#include "quern/data/locate.hpp"

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

void require_value(const std::string& option, const std::string& text, const std::string& type) {
  if (text.empty())
    throw Error(ErrorKind::config, option + ": is empty",
                "leave it away, or give it a value: " + option + " " + type);
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
      ->allow_extra_args(false)
      ->check(
          [](const std::string& file) {
            require_value("--config", file, "FILE");
            return std::string();
          },
          "");
  add_set_option(command, options.sets);
}

std::string default_config() {
  return (data_directory() / "../configs/toy.json").lexically_normal().string();
}

void add_run_option(CLI::App& command, std::string& run) {
  add_text(command, "--run", run, "DIR", "The run's directory; runs/latest when there is one");
}

std::filesystem::path run_or_latest(const std::string& run) {
  if (!run.empty()) return run;
  const std::filesystem::path latest = "runs/latest";
  std::error_code refused;  // then reading the run says why
  if (std::filesystem::exists(latest, refused) || refused) return latest;
  throw Error(ErrorKind::config, "--run: no run is named, and there is no runs/latest",
              "name a run's directory, --run DIR, or train one first: quern train");
}

void add_set_option(CLI::App& command, std::vector<std::string>& sets) {
  command.add_option("--set", sets, "One value, as in --set run.max_steps=20; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_color_option(CLI::App& command, std::string& colour) {
  add_choice(command, "--color", colour, {"auto", "always", "never"}, "When to colour");
}

template <class T>
T number_of(const std::string& option, const std::string& text, FieldRange range) {
  T value{};
  const auto problems = assign(Field{option, &value, range, ""}, json_or_string(text));
  if (!problems.empty())
    throw Error(ErrorKind::config, option + ": " + problems.front().what, problems.front().hint);
  return value;
}

template std::int64_t number_of(const std::string&, const std::string&, FieldRange);
template std::uint64_t number_of(const std::string&, const std::string&, FieldRange);
template double number_of(const std::string&, const std::string&, FieldRange);

CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& target,
                        const std::vector<std::string>& words, const std::string& about) {
  const auto read = [&target, name, words](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end())
      throw Error(ErrorKind::config, name + ": unknown value " + in_quotes(text),
                  did_you_mean_or_list(text, words));
    target = text;
  };
  return command.add_option_function<std::string>(name, read, about)
      ->type_name(CLI::detail::join(words, "|"))
      ->default_str(target);
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& target,
                      const std::string& type, const std::string& about) {
  const auto read = [&target, name, type](const std::string& text) {
    require_value(name, text, type);
    target = text;
  };
  return command.add_option_function<std::string>(name, read, about)->type_name(type)->default_str(target);
}

}  // namespace quern::cli
