// Access to a JSON value that was read: its description, conversions, typed getters.
#include <cmath>
#include <nlohmann/json.hpp>

#include "quern/base/strict_json.hpp"
#include "quern/base/suggest.hpp"

namespace quern {

std::string place(std::string_view name, TextPosition at) {
  std::string text(name);
  if (at.line > 0) text += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  return text;
}

const Json* Json::find(std::string_view key) const {
  if (const auto* members = std::get_if<Object>(&value))
    for (const Member& member : *members)
      if (member.key == key) return &member.value;
  return nullptr;
}

std::string Json::describe() const {
  struct Visitor {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(std::int64_t x) const { return std::to_string(x); }
    std::string operator()(std::uint64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const { return nlohmann::json(x).dump(); }
    std::string operator()(const std::string& x) const { return in_quotes(x); }
    std::string operator()(const List&) const { return "a list"; }
    std::string operator()(const Object&) const { return "an object"; }
  };
  return std::visit(Visitor{}, value);
}

bool as_integer(const Json& json, std::int64_t& out) {
  if (const auto* x = std::get_if<std::int64_t>(&json.value)) {
    out = *x;
    return true;
  }
  if (const auto* x = std::get_if<double>(&json.value)) {
    if (*x != std::trunc(*x) || std::abs(*x) >= 0x1p53) return false;
    out = static_cast<std::int64_t>(*x);
    return true;
  }
  const auto* x = std::get_if<std::uint64_t>(&json.value);
  if (!x || *x > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
  out = static_cast<std::int64_t>(*x);
  return true;
}

bool as_integer(const Json& json, std::uint64_t& out) {
  if (const auto* x = std::get_if<std::uint64_t>(&json.value)) {
    out = *x;
    return true;
  }
  std::int64_t small = 0;
  if (!as_integer(json, small) || small < 0) return false;
  out = static_cast<std::uint64_t>(small);
  return true;
}

Json json_or_string(const std::string& text) {
  try {
    return parse_strict(text, "", ErrorKind::config).root;
  } catch (const Error&) {
    return Json{text, {}};
  }
}

void JsonDocument::fail(const Json& json, const std::string& what, const std::string& hint) const {
  throw Error(kind, what, hint, place(name, json.at));
}

const Json& JsonDocument::member(const Json& object_, std::string_view key) const {
  object(object_);
  const Json* found = object_.find(key);
  if (!found) fail(object_, "the key " + in_quotes(key) + " is missing");
  return *found;
}

std::int64_t JsonDocument::integer(const Json& json, std::int64_t min, std::int64_t max) const {
  std::int64_t value = 0;
  if (!as_integer(json, value)) fail(json, "expected an integer, found " + json.describe());
  if (value < min || value > max)
    fail(json, "must be from " + std::to_string(min) + " to " + std::to_string(max) + ", found " +
                   std::to_string(value));
  return value;
}

std::uint64_t JsonDocument::unsigned_integer(const Json& json) const {
  std::uint64_t value = 0;
  if (!as_integer(json, value)) fail(json, "expected an integer of at least 0, found " + json.describe());
  return value;
}

double JsonDocument::number(const Json& json) const {
  if (const auto* x = std::get_if<double>(&json.value)) return *x;
  if (const auto* x = std::get_if<std::int64_t>(&json.value)) return static_cast<double>(*x);
  if (const auto* x = std::get_if<std::uint64_t>(&json.value)) return static_cast<double>(*x);
  fail(json, "expected a number, found " + json.describe());
}

bool JsonDocument::boolean(const Json& json) const {
  if (const auto* x = std::get_if<bool>(&json.value)) return *x;
  fail(json, "expected true or false, found " + json.describe());
}

const std::string& JsonDocument::string(const Json& json) const {
  if (const auto* x = std::get_if<std::string>(&json.value)) return *x;
  fail(json, "expected a string, found " + json.describe());
}

const Json::List& JsonDocument::list(const Json& json) const {
  if (const auto* x = std::get_if<Json::List>(&json.value)) return *x;
  fail(json, "expected a list, found " + json.describe());
}

const Json::Object& JsonDocument::object(const Json& json) const {
  if (const auto* x = std::get_if<Json::Object>(&json.value)) return *x;
  fail(json, "expected an object, found " + json.describe());
}

}  // namespace quern
