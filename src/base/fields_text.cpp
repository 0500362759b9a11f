// A field list as text: pretty JSON, JSON Schema, a table for people.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "quern/base/fields.hpp"

namespace quern {

namespace {

using Ordered = nlohmann::ordered_json;

std::string leaf(const Field& field) { return field.path.substr(field.path.find('.') + 1); }

bool belongs(const Field& field, const std::string& section) { return field.path.starts_with(section + "."); }
bool at_root(const Field& field) { return field.path.find('.') == std::string::npos; }

/// The words of `text` in lines of at most `width` columns, each behind `indent`.
std::string wrapped(const std::string& text, const std::string& indent, std::size_t width) {
  std::istringstream words(text);
  std::string out, line, word;
  while (words >> word) {
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + indent + line + "\n";
}

/// "    \"d_model\": 128" lines joined by commas, below comments of what they mean when those have a width.
std::string json_members(const FieldList& list, const std::string& section, const std::string& indent,
                         std::size_t comments) {
  std::string text;
  for (const Field& field : list.fields) {
    if (section.empty() ? !at_root(field) : !belongs(field, section)) continue;
    text += text.empty() ? "" : ",\n";
    if (comments > 0) text += wrapped(field.doc + " (" + type_text(field) + ")", indent + "// ", comments);
    text += indent + '"' + leaf(field) + "\": " + value_text(field);
  }
  return text;
}

std::string json_object(const FieldList& list, std::size_t comments) {
  std::string text = json_members(list, "", "  ", comments);
  for (const FieldSection& section : list.sections) {
    const std::string members = json_members(list, section.name, "    ", comments);
    if (members.empty()) continue;
    text += text.empty() ? "" : ",\n";
    if (comments > 0) text += "\n  // " + section.doc + "\n";
    text += "  \"" + section.name + "\": {\n" + members + "\n  }";
  }
  return text.empty() ? "{}\n" : "{\n" + text + "\n}\n";
}

void limit(Ordered& schema, const FieldRange& range, bool integral) {
  const auto number = [&](double x) { return integral ? Ordered(static_cast<std::int64_t>(x)) : Ordered(x); };
  if (std::isfinite(range.min))
    schema[range.min_excluded ? "exclusiveMinimum" : "minimum"] = number(range.min);
  if (std::isfinite(range.max))
    schema[range.max_excluded ? "exclusiveMaximum" : "maximum"] = number(range.max);
}

Ordered field_schema(const Field& field) {
  Ordered schema;
  if (std::holds_alternative<std::int64_t*>(field.slot)) {
    schema["type"] = "integer";
    limit(schema, field.range, true);
  } else if (std::holds_alternative<std::uint64_t*>(field.slot)) {
    schema = {{"type", "integer"}, {"minimum", 0}, {"maximum", std::numeric_limits<std::uint64_t>::max()}};
  } else if (std::holds_alternative<double*>(field.slot)) {
    schema["type"] = "number";
    limit(schema, field.range, false);
  } else if (std::holds_alternative<bool*>(field.slot)) {
    schema["type"] = "boolean";
  } else if (std::holds_alternative<std::string*>(field.slot)) {
    schema["type"] = "string";
  } else if (std::holds_alternative<std::array<double, 2>*>(field.slot)) {
    Ordered items{{"type", "number"}};
    limit(items, field.range, false);
    schema = {{"type", "array"}, {"items", items}, {"minItems", 2}, {"maxItems", 2}};
  } else if (std::holds_alternative<std::vector<std::int64_t>*>(field.slot)) {
    Ordered items{{"type", "integer"}};
    limit(items, field.range, true);
    schema = {{"type", "array"}, {"items", items}};
  } else if (const auto* slot = std::get_if<EnumSlot>(&field.slot)) {
    schema["type"] = "string";
    schema["enum"] = slot->names;
  } else {
    schema["type"] = {"string", "array"};
    schema["items"] = {{"type", "string"}};
  }
  schema["description"] = field.doc;
  schema["default"] = Ordered::parse(value_text(field));
  return schema;
}

Ordered object_schema(const FieldList& list, const std::string& section) {
  Ordered schema{{"type", "object"}, {"additionalProperties", false}, {"properties", Ordered::object()}};
  for (const Field& field : list.fields)
    if (section.empty() ? at_root(field) : belongs(field, section))
      schema["properties"][leaf(field)] = field_schema(field);
  return schema;
}

std::string table_entry(const Field& field, const std::string& name, std::size_t width) {
  return "  " + name + " = " + value_text(field) + "  (" + type_text(field) + ")\n" +
         wrapped(field.doc, "      ", width);
}

}  // namespace

std::string type_text(const Field& field) {
  const std::string range = field.range.text().empty() ? "" : " " + field.range.text();
  if (std::holds_alternative<std::int64_t*>(field.slot)) return "integer" + range;
  if (std::holds_alternative<std::uint64_t*>(field.slot)) return "integer at least 0";
  if (std::holds_alternative<double*>(field.slot)) return "number" + range;
  if (std::holds_alternative<bool*>(field.slot)) return "true or false";
  if (std::holds_alternative<std::string*>(field.slot)) return "string";
  if (std::holds_alternative<std::array<double, 2>*>(field.slot)) return "list of 2 numbers" + range;
  if (std::holds_alternative<std::vector<std::int64_t>*>(field.slot)) return "list of integers" + range;
  if (std::holds_alternative<std::vector<std::string>*>(field.slot)) return "string or list of strings";
  std::string names;
  for (const std::string_view name : std::get<EnumSlot>(field.slot).names)
    names += (names.empty() ? "" : " | ") + std::string(name);
  return names;
}

std::string to_json(const FieldList& list) { return json_object(list, 0); }

std::string commented_json(const FieldList& list, std::size_t width) { return json_object(list, width); }

std::string json_schema(const FieldList& list, std::string_view title) {
  Ordered schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", title}};
  schema.update(object_schema(list, ""));
  Ordered& properties = schema["properties"];
  properties["$schema"] = {{"type", "string"},
                           {"description", "The schema that editors check this file against."}};
  for (const FieldSection& section : list.sections) {
    properties[section.name] = object_schema(list, section.name);
    properties[section.name]["description"] = section.doc;
  }
  return schema.dump(2) + "\n";
}

std::string fields_table(const FieldList& list, std::size_t width) {
  std::string text;
  for (const Field& field : list.fields)
    if (at_root(field)) text += table_entry(field, leaf(field), width);
  for (const FieldSection& section : list.sections) {
    text += "\n" + section.name + ": " + section.doc + "\n";
    for (const Field& field : list.fields)
      if (belongs(field, section.name)) text += table_entry(field, leaf(field), width);
  }
  return text;
}

}  // namespace quern
