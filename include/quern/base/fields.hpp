// A struct lists its fields once; from that list come reading, writing, defaults, help, JSON Schema and
// differences:
//
//   struct OptimConfig {
//     double learning_rate = 1e-3;
//     void fields(FieldList& f) { f("learning_rate", learning_rate, above(0), "Peak learning rate."); }
//   };
//
// An enum's names stand once beside it, found by argument-dependent lookup:
//
//   enum class Precision { f32 };
//   constexpr auto enum_names(Precision) { return std::to_array<EnumName<Precision>>({{Precision::f32,
//   "f32"}}); }
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quern/base/strict_json.hpp"

namespace quern {

template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

/// The name of an enum's value, as in the config.
template <class E>
std::string_view enum_name(E value) {
  for (const auto& entry : enum_names(E{}))
    if (entry.value == value) return entry.name;
  throw Bug("enum value without a name");
}

/// The values that a number may take; both ends included unless said otherwise. Of a list of texts: how many
/// it may have, 4,096 where its field says nothing.
struct FieldRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;

  bool contains(double x) const {
    return (min_excluded ? x > min : x >= min) && (max_excluded ? x < max : x <= max);
  }
  /// "at least 1", "above 0 and below 1", "" for every number.
  std::string text() const;
};
constexpr FieldRange at_least(double min) { return {.min = min}; }
constexpr FieldRange above(double min) { return {.min = min, .min_excluded = true}; }
constexpr FieldRange between(double min, double max) { return {.min = min, .max = max}; }
constexpr FieldRange half_open(double min, double max) {
  return {.min = min, .max = max, .max_excluded = true};
}

/// An enum field with its type erased: the index into `names` is the value.
struct EnumSlot {
  void* target;
  std::vector<std::string_view> names;
  std::size_t (*get)(const void* target);
  void (*set)(void* target, std::size_t index);
};

/// Where a field's value lies. A vector of strings is written as one string or a list of them, a vector of
/// integers as a list.
using FieldSlot =
    std::variant<std::int64_t*, std::uint64_t*, double*, bool*, std::string*, std::array<double, 2>*,
                 std::vector<std::string>*, std::vector<std::int64_t>*, EnumSlot>;

struct Field {
  std::string path;  // "optim.learning_rate"; without a dot for a field of the root
  FieldSlot slot;
  FieldRange range;
  std::string doc;
};

struct FieldSection {
  std::string name;
  std::string doc;
};

/// The fields of one object, bound to it: valid as long as the object stays where it is.
class FieldList {
 public:
  std::vector<Field> fields;
  std::vector<FieldSection> sections;

  template <class T>
  void operator()(std::string_view name, T& value, std::string_view doc) {
    add(name, value, FieldRange{}, doc);
  }
  template <class T>
  void operator()(std::string_view name, T& value, FieldRange range, std::string_view doc) {
    add(name, value, range, doc);
  }

  /// A nested struct with its own fields(); one level.
  template <class T>
  void section(std::string_view name, T& part, std::string_view doc) {
    sections.push_back({std::string(name), std::string(doc)});
    prefix_ = std::string(name) + ".";
    part.fields(*this);
    prefix_.clear();
  }

  /// The field of that path, nullptr when there is none.
  const Field* find(std::string_view path) const;
  bool is_section(std::string_view name) const;

 private:
  template <class T>
  void add(std::string_view name, T& value, FieldRange range, std::string_view doc) {
    fields.push_back({prefix_ + std::string(name), slot(value), range, std::string(doc)});
  }

  template <class T>
  static FieldSlot slot(T& value) {
    if constexpr (std::is_enum_v<T>) {
      EnumSlot erased{&value, {}, nullptr, nullptr};
      for (const auto& entry : enum_names(T{})) erased.names.push_back(entry.name);
      erased.get = [](const void* target) {
        const auto names = enum_names(T{});
        for (std::size_t i = 0; i < names.size(); ++i)
          if (names[i].value == *static_cast<const T*>(target)) return i;
        throw Bug("enum value without a name");
      };
      erased.set = [](void* target, std::size_t index) {
        *static_cast<T*>(target) = enum_names(T{})[index].value;
      };
      return erased;
    } else {
      return &value;
    }
  }

  std::string prefix_;
};

/// The list of an object's fields.
template <class T>
FieldList fields_of(T& object) {
  FieldList list;
  object.fields(list);
  return list;
}

/// What is wrong with one field.
struct FieldProblem {
  std::string path;  // "optim.learning_rate", "optim.betas.1"
  std::string what;
  std::string hint;
  TextPosition at;  // the offending value's
};

/// Gives the field the JSON value, or leaves it alone and says why not.
std::vector<FieldProblem> assign(const Field& field, const Json& json);

/// The checks that assign makes on a value (range, UTF-8), for objects made in code.
std::vector<FieldProblem> check(const Field& field);

/// Gives `to` the value of `from`, a field of the same type: back to the default.
void copy_value(const Field& to, const Field& from);

/// The field's value as a JSON tree without positions.
Json value_json(const Field& field);

/// The field's value as JSON text: 128, 0.001, "gelu", [0.9, 0.95]. It reads back to the same value, and
/// holds nothing that a terminal would obey.
std::string value_text(const Field& field);

/// "integer", "number", "true or false", "text", "one of gelu, relu", …
std::string type_text(const Field& field);

/// The fields as pretty JSON, sections in order, with a final newline.
std::string to_json(const FieldList& list);

/// The same with a comment over each field: its meaning and type, in lines of at most `width` columns.
std::string commented_json(const FieldList& list, std::size_t width);

/// JSON Schema draft-07 of the list, whose values are the defaults: additionalProperties false everywhere;
/// "$schema" allowed at the root.
std::string json_schema(const FieldList& list, std::string_view title);

/// A table for people: name, type and range, default, meaning; wrapped to `width` columns.
std::string fields_table(const FieldList& list, std::size_t width);

struct Difference {
  std::string path;
  std::string before;  // JSON text
  std::string after;
};

/// The fields in which two objects of the same type differ.
std::vector<Difference> differences(const FieldList& before, const FieldList& after);

/// All mistakes of a config. format(error) prints every one of them, in the order given:
///   error[config]: optim.lerning_rate: unknown key
///     --> cfg.json:14:7
///     help: did you mean "learning_rate"?
///   error[config]: …
class ConfigErrors : public Error {
 public:
  struct Item {
    std::string what;   // "optim.lerning_rate: unknown key"
    std::string hint;   // may be empty
    std::string place;  // "cfg.json:14:7", "--set run.max_steps=x"; may be empty
  };
  explicit ConfigErrors(std::vector<Item> items_);  // at least one

  std::vector<Item> items;
};

}  // namespace quern
