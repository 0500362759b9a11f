// quern completions
#include <algorithm>
#include <filesystem>
#include <memory>

#include "command.hpp"
#include "quern/base/files.hpp"
#include "quern/train/config.hpp"
#include "quern/train/run_list.hpp"

namespace quern::cli {

namespace {

/// What may stand at a place of a command line.
struct Candidates {
  struct Word {
    std::string text, about;
  };
  std::vector<Word> words;
  bool files = false;  // names of files too
};

bool begins(const std::string& text, const std::string& beginning) { return text.starts_with(beginning); }

std::vector<std::string> parts_of(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The runs below runs/, the latest written first.
void add_runs_here(Candidates& to) {
  try {
    Files files;
    const auto runs = run_directories(files, "runs");
    for (const std::filesystem::path& run : runs) to.words.push_back({run.string(), ""});
    if (!runs.empty()) to.words.push_back({"runs/latest", "the newest run"});
  } catch (const Error&) {  // no runs: nothing to offer
  }
}

std::vector<std::string> value_names(const Field& field) {
  if (std::holds_alternative<bool*>(field.slot)) return {"true", "false"};
  const auto* slot = std::get_if<EnumSlot>(&field.slot);
  if (slot == nullptr) return {};
  return {slot->names.begin(), slot->names.end()};
}

/// model.d_model=, or the values of an enumeration or a switch behind model.norm=.
void add_settings(Candidates& to, const std::string& word) {
  Config defaults;
  const FieldList list = fields_of(defaults);
  const std::size_t equals = word.find('=');
  for (const Field& field : list.fields) {
    if (equals == std::string::npos) {
      to.words.push_back({field.path + "=", field.doc});
    } else if (field.path == word.substr(0, equals)) {
      for (const std::string& value : value_names(field)) to.words.push_back({field.path + "=" + value, ""});
    }
  }
}

void add_values(Candidates& to, const std::string& type, const std::string& word) {
  if (begins(type, "KEY=")) return add_settings(to, word);
  const bool choice = type.find('|') != std::string::npos;
  if (type == "DIR" || begins(type, "RUN") || (choice && type.find("DIR") != std::string::npos))
    add_runs_here(to);
  if (type == "WHICH") to.words = {{"best", "the lowest validation loss"}, {"last", "the newest"}};
  if (choice)
    for (const std::string& value : parts_of(type, '|'))
      if (value != "DIR" && value != "CHECKPOINT") to.words.push_back({value, ""});
  to.files = type != "N" && type != "X" && (!choice || type.find("DIR") != std::string::npos);
}

const CLI::App* command_named(const CLI::App& parent, const std::string& name) {
  for (const CLI::App* each : parent.get_subcommands({}))
    if (each->get_name() == name) return each;
  return nullptr;
}

/// The option that wants the word behind `word`, or null.
const CLI::Option* option_before(const CLI::App& command, const std::string& word) {
  const CLI::Option* option = begins(word, "-") ? command.get_option_no_throw(word) : nullptr;
  return option != nullptr && option->get_type_size() > 0 ? option : nullptr;
}

Candidates candidates(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (option_before(*command, words[i]) != nullptr) {
      ++i;
    } else if (const CLI::App* next = command_named(*command, words[i])) {
      command = next;
    }
  }
  const std::string word = words.empty() ? "" : words.back();
  Candidates found;
  if (words.size() > 1)
    if (const CLI::Option* option = option_before(*command, words[words.size() - 2])) {
      add_values(found, option->get_type_name(), word);
      return found;
    }
  if (begins(word, "-")) {
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        found.words.push_back({"--" + name, option->get_description()});
    return found;
  }
  for (const CLI::App* sub : command->get_subcommands({}))
    if (!sub->get_group().empty()) found.words.push_back({sub->get_name(), sub->get_description()});
  for (const CLI::Option* option : command->get_options())
    if (option->get_positional()) add_values(found, option->get_type_name(), word);
  return found;
}

/// One candidate a line, behind a tab what it is; a last line ":files" where names of files may stand too.
std::string lines_of(Candidates found, const std::string& word) {
  std::string text;
  for (const Candidates::Word& each : found.words) {
    if (!begins(each.text, word)) continue;
    std::string about = each.about;
    std::replace(about.begin(), about.end(), '\n', ' ');
    text += each.text + (about.empty() ? "" : "\t" + about) + "\n";
  }
  return text + (found.files ? ":files\n" : "");
}

// Bash cuts words at "=": they are put together again, and what it holds already is left away.
constexpr const char* bash_script =
    R"(# quern completions bash > /etc/bash_completion.d/quern, or: source <(quern completions bash)
_quern() {
  local words=() i line cur
  for ((i = 1; i <= COMP_CWORD; i++)); do
    if [[ ${#words[@]} -gt 0 && ( ${COMP_WORDS[i]} == "=" || ${words[-1]} == *= ) && ${words[-1]} == *.* ]]; then
      words[-1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  cur=${words[-1]}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
    else
      line=${line%%$'\t'*}
      [[ $line == *= ]] && compopt -o nospace 2>/dev/null
      [[ $cur == *=* ]] && line=${line#"${cur%%=*}="}
      COMPREPLY+=("$line")
    fi
  done < <("${COMP_WORDS[0]}" completions words -- "${words[@]}" 2>/dev/null)
}
complete -F _quern quern
)";

constexpr const char* zsh_script = R"(#compdef quern
# quern completions zsh > a file _quern of $fpath, or: source <(quern completions zsh)
_quern() {
  local line
  local -a names abouts
  for line in "${(@f)$("$words[1]" completions words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :files ]]; then
      _files
    elif [[ -n $line ]]; then
      names+=("${line%%$'\t'*}")
      abouts+=("${line//$'\t'/  -- }")
    fi
  done
  if (( ${#names} )); then
    if [[ ${names[1]} == *= ]]; then
      compadd -S '' -l -d abouts -a names
    else
      compadd -l -d abouts -a names
    fi
  fi
}
if [[ $funcstack[1] == _quern ]]; then _quern "$@"; else compdef _quern quern; fi
)";

constexpr const char* fish_script = R"(# quern completions fish > ~/.config/fish/completions/quern.fish
function __quern_words
  set -l current (commandline -ct)
  for line in (quern completions words -- (commandline -opc)[2..] "$current" 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path "$current"
    else
      echo $line
    end
  end
end
complete -c quern -f -a '(__quern_words)'
)";

}  // namespace

void add_completions(CLI::App& app) {
  CLI::App* group = add_command_group(app, "completions", "Print what completes commands in a shell",
                                      {"source <(quern completions bash)", "source <(quern completions zsh)",
                                       "quern completions fish > ~/.config/fish/completions/quern.fish"});
  for (const auto& [shell, script] :
       {std::pair("bash", bash_script), std::pair("zsh", zsh_script), std::pair("fish", fish_script)})
    add_command(*group, shell, std::string("Print the script for ") + shell, {}, [script = script] {
      write_out(script);
      return 0;
    });
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      add_command(*group, "words", "Print what may stand at the last of these words",
                  {"quern completions words -- train --set model.d"}, [&app, words] {
                    write_out(lines_of(candidates(app, *words), words->empty() ? "" : words->back()));
                    return 0;
                  });
  command->add_option("WORD", *words, "A command line without its first word; the last one may be empty")
      ->type_name("");
}

}  // namespace quern::cli
