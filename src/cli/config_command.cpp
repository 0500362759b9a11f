// quern config init | show | check | fields | schema
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/files.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/config.hpp"
#include "quern/watch/terminal.hpp"

namespace quern::cli {

namespace {

struct ShowOptions : ConfigOptions {
  bool origin = false;
  bool json = false;
};

/// {"model.d_model": {"value": 128, "origin": "default"}, …}
std::string origins_json(const FieldList& list, const Origins& origins) {
  nlohmann::ordered_json object;
  for (const Field& field : list.fields)
    object[field.path] = {{"value", nlohmann::ordered_json::parse(value_text(field))},
                          {"origin", origins.at(field.path)}};
  return harmless_json(object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
}

std::string values_table(const FieldList& list, const Origins& origins, bool with_origin) {
  std::size_t path_width = 0, value_width = 0;
  for (const Field& field : list.fields) {
    path_width = std::max(path_width, field.path.size());
    value_width = std::max(value_width, std::min<std::size_t>(value_text(field).size(), 24));
  }
  std::string text;
  for (const Field& field : list.fields) {
    std::string line =
        field.path + std::string(path_width - field.path.size(), ' ') + " = " + value_text(field);
    const std::size_t column = path_width + 3 + value_width;
    if (with_origin)
      line += std::string(line.size() < column ? column - line.size() : 0, ' ') + "  # " +
              harmless(origins.at(field.path));
    text += line + "\n";
  }
  return text;
}

int show(const ShowOptions& options) {
  Origins origins;
  Config config = resolved(load_config(options.files, options.sets, &origins));
  const FieldList list = fields_of(config);
  if (options.json) {
    write_out(options.origin ? origins_json(list, origins) : to_json(list));
  } else {
    write_out(values_table(list, origins, options.origin));
  }
  return 0;
}

struct InitOptions : ConfigOptions {
  std::string file;
};

/// A new file, never in the place of another.
int init(const InitOptions& options) {
  Config config = load_config(options.files, options.sets);
  const std::string text = commented_json(fields_of(config), 100);
  if (options.file.empty()) {
    write_out(text);
    return 0;
  }
  Files files;
  if (files.kind(options.file) != EntryKind::missing)
    throw Error(ErrorKind::config, "this file is there already, and nothing was written",
                "name another file, or delete it", options.file);
  File file = files.create(options.file);
  file.write(text);
  file.close();
  say("wrote " + options.file + "; change what you like, and: quern train --config " +
      shell_word(options.file));
  return 0;
}

int check(const ConfigOptions& options) {
  const Config config = load_config(options.files, options.sets);
  const std::size_t count = differences(Config{}, config).size();
  std::fprintf(stderr, "the config is valid; it differs from the defaults in %zu value%s\n", count,
               count == 1 ? "" : "s");
  return 0;
}

}  // namespace

void add_config(CLI::App& app) {
  CLI::App* group = add_command_group(
      app, "config", "Write, show and check configs",
      {"quern config init my.json", "quern config show --config configs/toy.json --origin",
       "quern config check --config my.json --set run.max_steps=20", "quern config fields"});

  const auto shown = std::make_shared<ShowOptions>();
  CLI::App* command =
      add_command(*group, "show", "Print the whole config that files, environment and --set make",
                  {"quern config show --config configs/toy.json",
                   "quern config show --config configs/toy.json --set model.d_model=256 --origin",
                   "quern config show --config configs/toy.json --json > whole.json"},
                  [shown] { return show(*shown); });
  add_config_options(*command, *shown);
  command->add_flag("--origin", shown->origin, "Say of each value where it comes from");
  command->add_flag("--json", shown->json, "Print one JSON object; without --origin it is a config again");

  const auto begun = std::make_shared<InitOptions>();
  command = add_command(*group, "init", "Write a config with every field, its value, type and meaning",
                        {"quern config init my.json", "quern config init my.json --config configs/toy.json",
                         "quern config init --set model.architecture=encoder | less"},
                        [begun] { return init(*begun); });
  command->add_option("FILE", begun->file, "The file to make; standard output without it")->type_name("");
  add_config_options(*command, *begun);

  const auto checked = std::make_shared<ConfigOptions>();
  command = add_command(*group, "check", "Report every mistake of a config at once, without a run",
                        {"quern config check --config my.json",
                         "quern config check --config my.json --set optim.learning_rate=3e-3",
                         "quern config check --config configs/toy.json --config my.json"},
                        [checked] { return check(*checked); });
  add_config_options(*command, *checked);

  add_command(
      *group, "fields", "List every field with its default, range and meaning",
      {"quern config fields", "quern config fields | less", "quern config fields | grep -A 2 dropout"}, [] {
        Config defaults;
        write_out(fields_table(fields_of(defaults), 80));
        return 0;
      });
  add_command(*group, "schema", "Print the JSON Schema (draft-07) of config files, for editors",
              {"quern config schema > quern.schema.json", "quern config schema | jq .properties.model",
               "quern config schema | jq -r '.properties | keys[]'"},
              [] {
                Config defaults;
                write_out(json_schema(fields_of(defaults), "Quern config"));
                return 0;
              });
}

}  // namespace quern::cli
