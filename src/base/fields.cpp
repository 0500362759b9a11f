#include "quern/base/fields.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "quern/base/suggest.hpp"

namespace quern {

namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // for clang before 17

/// 12, 0.5, 1e+12: an integer without a point as long as it is short.
std::string number_text(double x) {
  if (x == std::trunc(x) && std::abs(x) < 1e15) return std::to_string(static_cast<std::int64_t>(x));
  return nlohmann::json(x).dump();
}

/// Collects the problems of one assignment; each value is read by a function that returns whether it may be
/// used.
class Reader {
 public:
  Reader(const Field& field, std::vector<FieldProblem>& problems) : field_(field), problems_(problems) {}

  bool integer(const Json& json, std::int64_t& out) {
    if (!json.is_number()) return expected("an integer", json);
    const double x = std::visit(Overloaded{[](std::int64_t v) { return static_cast<double>(v); },
                                           [](std::uint64_t v) { return static_cast<double>(v); },
                                           [](double v) { return v; }, [](const auto&) { return 0.0; }},
                                json.value);
    if (x != std::trunc(x)) return expected("an integer", json);
    if (!as_integer(json, out)) return out_of_range(json, field_.range.text());
    return in_range(static_cast<double>(out), json);
  }

  bool seed(const Json& json, std::uint64_t& out) {
    if (as_integer(json, out)) return true;
    const auto* x = std::get_if<double>(&json.value);
    if (!json.is_number() || (x && *x != std::trunc(*x))) return expected("an integer", json);
    return out_of_range(json, "from 0 to " + std::to_string(std::numeric_limits<std::uint64_t>::max()));
  }

  bool number(const Json& json, double& out) {
    if (!json.is_number()) return expected("a number", json);
    std::visit(Overloaded{[&](std::int64_t v) { out = static_cast<double>(v); },
                          [&](std::uint64_t v) { out = static_cast<double>(v); }, [&](double v) { out = v; },
                          [](const auto&) {}},
               json.value);
    return in_range(out, json);
  }

  bool boolean(const Json& json, bool& out) {
    const bool* x = std::get_if<bool>(&json.value);
    if (!x) return expected("true or false", json);
    out = *x;
    return true;
  }

  bool text(const Json& json, std::string& out) {
    const std::string* x = std::get_if<std::string>(&json.value);
    if (!x) return expected("a string", json);
    if (x->find('\0') != std::string::npos) return fail("holds a NUL character", "", json);
    if (first_non_utf8(*x) < x->size())
      return fail("expected UTF-8 text, found " + json.describe(), "", json);
    out = *x;
    return true;
  }

  bool choice(const Json& json, const std::vector<std::string_view>& names, std::size_t& out) {
    const std::vector<std::string> valid(names.begin(), names.end());
    const std::string* x = std::get_if<std::string>(&json.value);
    if (!x) return fail("expected a string, found " + json.describe(), did_you_mean_or_list("", valid), json);
    const auto found = std::find(valid.begin(), valid.end(), *x);
    if (found == valid.end())
      return fail("unknown value " + in_quotes(*x), did_you_mean_or_list(*x, valid), json);
    out = static_cast<std::size_t>(found - valid.begin());
    return true;
  }

  bool pair(const Json& json, std::array<double, 2>& out) {
    const auto* list = std::get_if<Json::List>(&json.value);
    if (!list) return expected("a list of 2 numbers", json);
    if (list->size() != out.size())
      return fail("expected a list of 2 numbers, found a list of " + std::to_string(list->size()), "", json);
    bool good = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
      index_ = "." + std::to_string(i);
      good = number((*list)[i], out[i]) && good;
    }
    return good;
  }

  bool integers(const Json& json, std::vector<std::int64_t>& out) {
    const auto* list = std::get_if<Json::List>(&json.value);
    if (!list) return expected("a list of integers", json);
    return entries(*list, out, [this](const Json& entry, std::int64_t& to) { return integer(entry, to); });
  }

  bool texts(const Json& json, std::vector<std::string>& out) {
    if (json.is<std::string>()) return text(json, out.emplace_back());
    const auto* list = std::get_if<Json::List>(&json.value);
    if (!list) return expected("a string or a list of strings", json);
    return entries(*list, out, [this](const Json& entry, std::string& to) { return text(entry, to); });
  }

 private:
  /// Each entry by `read`; a list with many mistakes is not read to its end.
  template <class T, class Read>
  bool entries(const Json::List& list, std::vector<T>& out, Read read) {
    constexpr std::size_t most_problems = 20;
    const bool counted = std::is_same_v<T, std::string> && std::isfinite(field_.range.max);
    const std::size_t most_entries = counted ? static_cast<std::size_t>(field_.range.max) : 4096;
    if (list.size() > most_entries)
      return fail("expected a list of at most " + std::to_string(most_entries) + " entries, found " +
                      std::to_string(list.size()),
                  "", list.front());
    bool good = true;
    out.reserve(list.size());
    for (std::size_t i = 0; i < list.size() && problems_.size() < most_problems; ++i) {
      index_ = "." + std::to_string(i);
      good = read(list[i], out.emplace_back()) && good;
    }
    return good;
  }

  bool fail(const std::string& what, const std::string& hint, const Json& json) {
    problems_.push_back({field_.path + index_, what, hint, json.at});
    return false;
  }
  bool expected(const std::string& type, const Json& json) {
    const auto* text = std::get_if<std::string>(&json.value);
    const bool quoted = text != nullptr && !json_or_string(*text).is<std::string>();
    return fail("expected " + type + ", found " + json.describe(),
                json.is<std::nullptr_t>() && index_.empty() ? "leave the key out for its default"
                : quoted                                    ? "leave its quotes out"
                                                            : "",
                json);
  }
  bool out_of_range(const Json& json, const std::string& range) {
    return fail("must be " + range + ", found " + json.describe(), "", json);
  }
  bool in_range(double x, const Json& json) {
    return field_.range.contains(x) || out_of_range(json, field_.range.text());
  }

  const Field& field_;
  std::vector<FieldProblem>& problems_;
  std::string index_;  // ".1" inside a list
};

/// Reads into a fresh value and stores it when it is good.
template <class T, class Read>
void read_into(T* target, Read read) {
  T value{};
  if (read(value)) *target = std::move(value);
}

}  // namespace

std::string FieldRange::text() const {
  const bool low = std::isfinite(min), high = std::isfinite(max);
  if (low && high && !min_excluded && !max_excluded)
    return "from " + number_text(min) + " to " + number_text(max);
  std::string text;
  if (low) text = (min_excluded ? "above " : "at least ") + number_text(min);
  if (high)
    text += (low ? " and " : "") + std::string(max_excluded ? "below " : "at most ") + number_text(max);
  return text;
}

const Field* FieldList::find(std::string_view path) const {
  for (const Field& field : fields)
    if (field.path == path) return &field;
  return nullptr;
}

bool FieldList::is_section(std::string_view name) const {
  return std::any_of(sections.begin(), sections.end(), [&](const FieldSection& s) { return s.name == name; });
}

std::vector<FieldProblem> assign(const Field& field, const Json& json) {
  std::vector<FieldProblem> problems;
  Reader reader(field, problems);
  std::visit(
      Overloaded{
          [&](std::int64_t* target) {
            read_into(target, [&](auto& out) { return reader.integer(json, out); });
          },
          [&](std::uint64_t* target) {
            read_into(target, [&](auto& out) { return reader.seed(json, out); });
          },
          [&](double* target) { read_into(target, [&](auto& out) { return reader.number(json, out); }); },
          [&](bool* target) { read_into(target, [&](auto& out) { return reader.boolean(json, out); }); },
          [&](std::string* target) { read_into(target, [&](auto& out) { return reader.text(json, out); }); },
          [&](std::array<double, 2>* target) {
            read_into(target, [&](auto& out) { return reader.pair(json, out); });
          },
          [&](std::vector<std::string>* target) {
            read_into(target, [&](auto& out) { return reader.texts(json, out); });
          },
          [&](std::vector<std::int64_t>* target) {
            read_into(target, [&](auto& out) { return reader.integers(json, out); });
          },
          [&](const EnumSlot& slot) {
            std::size_t index = 0;
            if (reader.choice(json, slot.names, index)) slot.set(slot.target, index);
          }},
      field.slot);
  return problems;
}

std::vector<FieldProblem> check(const Field& field) {
  // NaN and Infinity have no JSON form, so assign() never meets them.
  const auto finite = [](const auto* values, std::size_t count) {
    return std::all_of(values, values + count, [](double x) { return std::isfinite(x); });
  };
  if (const auto* x = std::get_if<double*>(&field.slot); x && !finite(*x, 1))
    return {{field.path, "must be finite", "", {}}};
  if (const auto* x = std::get_if<std::array<double, 2>*>(&field.slot); x && !finite((*x)->data(), 2))
    return {{field.path, "must be finite", "", {}}};
  return assign(field, value_json(field));
}

void copy_value(const Field& to, const Field& from) {
  std::visit(
      [&](const auto& target) {
        using Slot = std::decay_t<decltype(target)>;
        const Slot& source = std::get<Slot>(from.slot);
        if constexpr (std::is_same_v<Slot, EnumSlot>) {
          target.set(target.target, source.get(source.target));
        } else {
          *target = *source;
        }
      },
      to.slot);
}

Json value_json(const Field& field) {
  const auto integer = [](std::int64_t x) -> Json {
    return x < 0 ? Json{x, {}} : Json{static_cast<std::uint64_t>(x), {}};
  };
  return std::visit(Overloaded{[&](const std::int64_t* x) { return integer(*x); },
                               [](const EnumSlot& slot) {
                                 return Json{std::string(slot.names.at(slot.get(slot.target))), {}};
                               },
                               [](const std::array<double, 2>* x) {
                                 return Json{Json::List{Json{(*x)[0], {}}, Json{(*x)[1], {}}}, {}};
                               },
                               [](const std::vector<std::string>* x) {
                                 Json::List list;
                                 for (const std::string& text : *x) list.push_back({text, {}});
                                 return Json{std::move(list), {}};
                               },
                               [&](const std::vector<std::int64_t>* x) {
                                 Json::List list;
                                 for (const std::int64_t entry : *x) list.push_back(integer(entry));
                                 return Json{std::move(list), {}};
                               },
                               [](const auto* x) {
                                 return Json{*x, {}};
                               }},
                    field.slot);
}

namespace {

/// What is not UTF-8, in a path made in code, is shown as U+FFFD.
template <class T>
std::string json_text(const T& value) {
  return harmless_json(nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string json_text(const Json& json) {
  return std::visit(Overloaded{[](const Json::List&) { return std::string(); },
                               [](const Json::Object&) { return std::string(); },
                               [](const auto& x) { return json_text(x); }},
                    json.value);
}

template <class T>
std::string list_text(const std::vector<T>& list) {
  std::string text = "[";
  for (const T& entry : list) {
    if (text.size() > 1) text += ", ";
    text += json_text(entry);
  }
  return text + "]";
}

}  // namespace

std::string value_text(const Field& field) {
  // Not by way of a tree: there may be many labels.
  if (const auto* texts = std::get_if<std::vector<std::string>*>(&field.slot)) return list_text(**texts);
  const Json value = value_json(field);
  const auto* list = std::get_if<Json::List>(&value.value);
  return list ? list_text(*list) : json_text(value);
}

std::vector<Difference> differences(const FieldList& before, const FieldList& after) {
  QUERN_CHECK(before.fields.size() == after.fields.size(), before.fields.size(), after.fields.size());
  std::vector<Difference> found;
  for (std::size_t i = 0; i < before.fields.size(); ++i) {
    const std::string old = value_text(before.fields[i]), now = value_text(after.fields[i]);
    if (old != now) found.push_back({before.fields[i].path, old, now});
  }
  return found;
}

namespace {

/// All items but the last as printed, then the last one's sentence: format() adds its place and hint.
std::string joined(const std::vector<ConfigErrors::Item>& items) {
  QUERN_CHECK(!items.empty());
  std::string text;
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    text += format(Error(ErrorKind::config, items[i].what, items[i].hint, items[i].place));
    if (i == 0) text.erase(0, text.find(": ") + 2);
  }
  // format() itself begins the first line with the kind, so every later line needs it here.
  if (items.size() > 1) text += "error[" + std::string(name(ErrorKind::config)) + "]: ";
  return text + items.back().what;
}

}  // namespace

ConfigErrors::ConfigErrors(std::vector<Item> items_)
    : Error(ErrorKind::config, joined(items_), items_.empty() ? "" : items_.back().hint,
            items_.empty() ? "" : items_.back().place),
      items(std::move(items_)) {}

}  // namespace quern
