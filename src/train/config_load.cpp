// Defaults, files, QUERN_THREADS and --set become one config, or all their mistakes.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "config_check.hpp"
#include "quern/base/files.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/config.hpp"

namespace quern {

namespace {

/// Where a value or a mistake stands: the sources in their order, then the place within.
struct Origin {
  std::size_t source = 0;  // 0: the defaults
  TextPosition at;
  std::string place;   // for messages: "cfg.json:4:16", "--set run.max_steps=x"
  std::string origin;  // for `config show`
};

class Merger {
 public:
  void read_file(const ConfigText& file) {
    ++source_;
    try {
      const JsonDocument document =
          parse_strict(file.text, file.name, ErrorKind::config, DuplicateKeys::keep);
      file_ = file.name;
      read_root(document.root);
    } catch (const Error& error) {
      report(Origin{source_, {}, error.place, ""}, error.what(), error.hint);
    }
  }

  void unreadable_file(const Error& error, const std::string& hint) {
    ++source_;
    report(Origin{source_, {}, error.place, ""}, std::string("cannot read the config: ") + error.what(),
           hint.empty() ? error.hint : hint);
  }

  void read_threads(const std::string& value) {
    ++source_;
    set(Origin{source_, {}, "QUERN_THREADS=" + printable(value), "QUERN_THREADS"}, "run.threads", value);
  }

  void read_set(const std::string& argument) {
    ++source_;
    const Origin origin{source_, {}, "--set " + printable(argument), "--set"};
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      report(origin, "expected KEY=VALUE, found " + in_quotes(argument),
             "for example --set run.max_steps=20");
      return;
    }
    set(origin, argument.substr(0, equals), argument.substr(equals + 1));
  }

  Config finish(Origins* origins) {
    for (const CrossProblem& problem : cross_problems(config_)) {
      if (std::any_of(problem.paths.begin(), problem.paths.end(),
                      [&](auto& path) { return bad_.contains(path); }))
        continue;
      // The first of the fields that somebody stated.
      const auto stated = std::find_if(problem.paths.begin(), problem.paths.end(),
                                       [&](const std::string& path) { return given_.contains(path); });
      report(stated == problem.paths.end() ? Origin{} : given_.at(*stated),
             problem.paths.front() + ": " + problem.what, problem.hint);
    }
    if (!mistakes_.empty()) {
      std::stable_sort(mistakes_.begin(), mistakes_.end(), [](const Mistake& a, const Mistake& b) {
        return std::tie(a.source, a.at) < std::tie(b.source, b.at);
      });
      std::vector<ConfigErrors::Item> items;
      for (Mistake& mistake : mistakes_) items.push_back(std::move(mistake.item));
      if (untold_ > 0) items.push_back({"and " + std::to_string(untold_) + " more mistakes", "", ""});
      throw ConfigErrors(std::move(items));
    }
    if (origins) {
      origins->clear();
      for (const Field& field : list_.fields) {
        const auto found = given_.find(field.path);
        (*origins)[field.path] = found == given_.end() ? "default" : found->second.origin;
      }
    }
    return config_;
  }

 private:
  struct Mistake {
    std::size_t source;
    TextPosition at;
    ConfigErrors::Item item;
  };

  void report(const Origin& where, const std::string& what, const std::string& hint) {
    if (full()) {
      ++untold_;
      return;
    }
    mistakes_.push_back({where.source, where.at, {what, hint, where.place}});
  }

  bool full() const { return mistakes_.size() == 200; }

  Origin in_file(TextPosition at) const { return {source_, at, place(file_, at), place(file_, at)}; }

  void read_root(const Json& root) {
    const auto* members = std::get_if<Json::Object>(&root.value);
    if (!members) {
      report(in_file(root.at), "expected an object of sections, found " + root.describe(),
             "for example {\"run\": {\"max_steps\": 20}}");
      return;
    }
    for (const Json::Member* member : without_duplicates(*members, "")) {
      if (member->key == "$schema") {
        if (!member->value.is<std::string>())
          report(in_file(member->value.at), "$schema: expected a string, found " + member->value.describe(),
                 "");
      } else if (list_.is_section(member->key)) {
        read_section(member->key, member->value);
      } else {
        read_field("", *member);
      }
    }
  }

  void read_section(const std::string& name, const Json& json) {
    const auto* members = std::get_if<Json::Object>(&json.value);
    if (!members) {
      report(in_file(json.at), name + ": expected an object, found " + json.describe(), "");
      return;
    }
    for (const Json::Member* member : without_duplicates(*members, name + "."))
      read_field(name + ".", *member);
  }

  void read_field(const std::string& prefix, const Json::Member& member) {
    const std::string path = prefix + member.key;
    const Field* field = list_.find(path);
    // A key that holds dots itself is no path.
    if (!field || member.key.find('.') != std::string::npos) {
      const std::string key = member.key.empty() ? prefix + "\"\"" : printable(path);
      report(in_file(member.key_at), key + ": unknown key", full() ? "" : unknown_hint(prefix, member));
      return;
    }
    give(in_file(member.value.at), *field, member.value);
  }

  /// The members whose key stands for the first time; the others are reported.
  std::vector<const Json::Member*> without_duplicates(const Json::Object& members,
                                                      const std::string& prefix) {
    std::map<std::string_view, const Json::Member*> first;
    std::vector<const Json::Member*> kept;
    for (const Json::Member& member : members) {
      const auto [entry, fresh] = first.emplace(member.key, &member);
      if (fresh) {
        kept.push_back(&member);
      } else {
        report(in_file(member.key_at), printable(prefix + member.key) + ": stands twice",
               "the first is at " + place(file_, entry->second->key_at));
        bad_.insert(prefix + member.key);
      }
    }
    return kept;
  }

  void give(const Origin& origin, const Field& field, const Json& json) {
    const std::vector<FieldProblem> problems = assign(field, json);
    for (const FieldProblem& problem : problems)
      report(origin.origin == "--set" || origin.origin == "QUERN_THREADS" ? origin : in_file(problem.at),
             problem.path + ": " + problem.what, problem.hint);
    if (problems.empty()) given_[field.path] = origin;
    if (!problems.empty()) bad_.insert(field.path);
  }

  /// One key=value from outside the files.
  void set(const Origin& origin, const std::string& path, const std::string& value) {
    if (list_.is_section(path)) {
      report(origin, path + ": is a section, not a value", "for example --set run.max_steps=20");
      return;
    }
    const Field* field = list_.find(path);
    if (!field) {
      set_entry(origin, path, value);
      return;
    }
    const Json json = json_or_string(value);
    if (json.is<std::nullptr_t>()) {
      copy_value(*field, *default_list_.find(path));
      given_.erase(path);
      return;
    }
    const bool text =
        std::holds_alternative<std::string*>(field->slot) ||
        (std::holds_alternative<std::vector<std::string>*>(field->slot) && !json.is<Json::List>());
    // For a text, 123 and true are texts too.
    give(origin, *field, text && !json.is<std::string>() ? Json{value, {}} : json);
  }

  /// "optim.betas.1", "data.text.0": one entry of a list; the next free index appends to a list of texts.
  void set_entry(const Origin& origin, const std::string& path, const std::string& value) {
    const std::size_t dot = path.rfind('.');
    const Field* field = dot == std::string::npos ? nullptr : list_.find(path.substr(0, dot));
    const std::string digits = field != nullptr ? path.substr(dot + 1) : "";
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
      report(origin, printable(path) + ": unknown key", full() ? "" : unknown_path_hint(path));
      return;
    }
    Json list = value_json(*field);
    auto* entries = std::get_if<Json::List>(&list.value);
    if (!entries) {
      report(origin, printable(path) + ": " + field->path + " is no list", "");
      return;
    }
    const bool texts = std::holds_alternative<std::vector<std::string>*>(field->slot);
    if (index >= entries->size() + texts) {
      report(origin, printable(path) + ": the list has " + std::to_string(entries->size()) + " entries", "");
      return;
    }
    Json entry = json_or_string(value);
    if (texts && !entry.is<std::string>()) entry = Json{value, {}};
    if (index == entries->size()) entries->emplace_back();
    (*entries)[index] = std::move(entry);
    give(origin, *field, list);
  }

  static std::string leaf(const std::string& path) { return path.substr(path.find('.') + 1); }
  static std::string section(const std::string& path) {
    const std::size_t dot = path.find('.');
    return dot == std::string::npos ? "" : path.substr(0, dot);
  }
  std::vector<std::string> paths() const {
    std::vector<std::string> all;
    for (const Field& field : list_.fields) all.push_back(field.path);
    return all;
  }

  /// What to do about an unknown key of a file; `prefix` is "" or "section.".
  std::string unknown_hint(const std::string& prefix, const Json::Member& member) const {
    std::vector<std::string> here;
    if (prefix.empty())
      for (const FieldSection& each : list_.sections) here.push_back(each.name);
    for (const std::string& path : paths()) {
      const bool same = section(path) + "." == prefix || (prefix.empty() && section(path).empty());
      const bool exact = leaf(path) == member.key || path == member.key;
      if (exact && !section(path).empty() && !(prefix.empty() && member.value.is<Json::Object>()))
        return "\"" + leaf(path) + "\" belongs in \"" + section(path) + "\"";
      if (same) here.push_back(leaf(path));
    }
    const std::string found = nearest(member.key, here);
    if (!found.empty()) return "did you mean \"" + found + "\"?";
    return member.value.is<Json::Object>() ? list_hint : unknown_path_hint(member.key);
  }

  /// What to do about a path that --set does not find.
  std::string unknown_path_hint(const std::string& path) const {
    const std::vector<std::string> all = paths();
    std::vector<std::string> same_section, leaves;
    for (const std::string& each : all) {
      if (!section(path).empty() && section(each) == section(path)) same_section.push_back(each);
      leaves.push_back(leaf(each));
    }
    const auto exact = std::find(leaves.begin(), leaves.end(), leaf(path));
    if (exact != leaves.end()) return suggestion(all[static_cast<std::size_t>(exact - leaves.begin())]);
    std::string found = nearest(path, same_section);
    if (found.empty()) found = nearest(path, all);
    if (!found.empty()) return suggestion(found);
    const std::string near_leaf = nearest(leaf(path), leaves);
    if (near_leaf.empty()) return list_hint;
    return suggestion(
        all[static_cast<std::size_t>(std::find(leaves.begin(), leaves.end(), near_leaf) - leaves.begin())]);
  }

  static std::string suggestion(const std::string& word) { return "did you mean \"" + word + "\"?"; }
  static constexpr const char* list_hint = "`quern config fields` lists all keys";

  Config config_, defaults_;
  FieldList list_ = fields_of(config_), default_list_ = fields_of(defaults_);
  std::size_t source_ = 0;
  std::string file_;
  std::map<std::string, Origin> given_;
  std::set<std::string> bad_;
  std::vector<Mistake> mistakes_;
  std::size_t untold_ = 0;  // mistakes beyond those that anybody would read
};

/// A file in the directory of `path` with nearly its name.
std::string missing_hint(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return "";
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored))
    names.push_back((path.parent_path() / it->path().filename()).string());
  std::sort(names.begin(), names.end());
  return did_you_mean(path.string(), names);
}

}  // namespace

Config merge_config(const std::vector<ConfigText>& texts, const std::optional<std::string>& threads,
                    const std::vector<std::string>& sets, Origins* origins) {
  Merger merger;
  for (const ConfigText& text : texts) merger.read_file(text);
  if (threads && !threads->empty()) merger.read_threads(*threads);
  for (const std::string& argument : sets) merger.read_set(argument);
  return merger.finish(origins);
}

Config load_config(const std::vector<std::string>& files, const std::vector<std::string>& sets,
                   Origins* origins) {
  Merger merger;
  for (const std::string& file : files) {
    std::string text;
    try {
      text = quern::read_file(file, max_config_bytes);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::file) throw;
      merger.unreadable_file(error, missing_hint(file));
      continue;
    }
    merger.read_file({file, std::move(text)});
  }
  if (const char* threads = std::getenv("QUERN_THREADS"); threads && *threads) merger.read_threads(threads);
  for (const std::string& argument : sets) merger.read_set(argument);
  return merger.finish(origins);
}

}  // namespace quern
