#include "quern/base/fields.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.hpp"

using namespace quern;

namespace {

enum class Colour { red, green };
constexpr auto enum_names(Colour) {
  return std::to_array<EnumName<Colour>>({{Colour::red, "red"}, {Colour::green, "green"}});
}

struct Part {
  std::int64_t size = 4;
  double rate = 0.1;
  Colour colour = Colour::green;
  bool on = true;
  std::array<double, 2> pair = {0.9, 0.95};
  std::vector<std::string> files;

  void fields(FieldList& f) {
    f("size", size, between(1, 64), "How large.");
    f("rate", rate, half_open(0, 1),
      "How fast it goes, in words that are many enough to need a second line of text.");
    f("colour", colour, "Which one.");
    f("on", on, "Whether.");
    f("pair", pair, half_open(0, 1), "Two of them.");
    f("files", files, "Where from.");
  }
};

struct Whole {
  std::string title = "x";
  std::uint64_t seed = 7;
  Part part;

  void fields(FieldList& f) {
    f("title", title, "A line.");
    f("seed", seed, "A number.");
    f.section("part", part, "A part.");
  }
};

Json json(std::string_view text) { return parse_strict(text, "t", ErrorKind::file).root; }

/// What is wrong with the value, "" when it was taken.
std::string give(FieldList& list, std::string_view path, std::string_view text) {
  std::string all;
  for (const FieldProblem& p : assign(*list.find(path), json(text)))
    all += place(p.path, p.at) + " " + p.what + (p.hint.empty() ? "" : " | " + p.hint) + "\n";
  return all;
}

}  // namespace

TEST_CASE("fields are found by their path and take values of their type") {
  Whole whole;
  FieldList list = fields_of(whole);
  CHECK(list.find("part.size") != nullptr);
  CHECK(list.find("size") == nullptr);
  CHECK(list.is_section("part"));
  CHECK_FALSE(list.is_section("title"));

  CHECK(give(list, "part.size", "1e1").empty());
  CHECK(give(list, "part.rate", "0").empty());
  CHECK(give(list, "part.colour", "\"red\"").empty());
  CHECK(give(list, "part.on", "false").empty());
  CHECK(give(list, "part.pair", "[0, 0.5]").empty());
  CHECK(give(list, "part.files", "\"a\"").empty());
  CHECK(give(list, "seed", "18446744073709551615").empty());
  CHECK(whole.part.size == 10);
  CHECK(whole.part.rate == 0);
  CHECK(whole.part.colour == Colour::red);
  CHECK_FALSE(whole.part.on);
  CHECK(whole.part.pair == std::array<double, 2>{0, 0.5});
  CHECK(whole.part.files == std::vector<std::string>{"a"});
  CHECK(whole.seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(give(list, "part.files", "[\"a\", \"b\"]").empty());
  CHECK(whole.part.files.size() == 2);
}

TEST_CASE("a refused value leaves the field alone") {
  Whole whole;
  FieldList list = fields_of(whole);
  CHECK(give(list, "part.size", "65") == "part.size:1:1 must be from 1 to 64, found 65\n");
  CHECK(give(list, "part.size", "3.7") == "part.size:1:1 expected an integer, found 3.7\n");
  CHECK(give(list, "part.rate", "1") == "part.rate:1:1 must be at least 0 and below 1, found 1\n");
  CHECK(give(list, "part.colour", "\"gren\"") ==
        "part.colour:1:1 unknown value \"gren\" | did you mean \"green\"?\n");
  CHECK(give(list, "part.on", "1") == "part.on:1:1 expected true or false, found 1\n");
  CHECK(give(list, "part.pair", "[0.5, 2]") == "part.pair.1:1:7 must be at least 0 and below 1, found 2\n");
  CHECK(give(list, "part.files", "[\"a\", 2]") == "part.files.1:1:7 expected a string, found 2\n");
  CHECK(give(list, "title", "null") ==
        "title:1:1 expected a string, found null | leave the key out for its default\n");
  CHECK(give(list, "seed", "-1") == "seed:1:1 must be from 0 to 18446744073709551615, found -1\n");
  CHECK(assign(*list.find("title"), Json{std::string("\xFF"), {}}).front().what ==
        "expected UTF-8 text, found \"\\xff\"");
  Whole untouched;
  CHECK(differences(list, fields_of(untouched)).empty());
}

TEST_CASE("a list is not read beyond reason") {
  std::vector<std::string> texts;
  FieldList list;
  list("texts", texts, "");
  Json::List many(4096, Json{std::string("a"), {}});
  CHECK(assign(list.fields[0], Json{many, {}}).empty());
  CHECK(texts.size() == 4096);
  many.push_back(many.front());
  const std::vector<FieldProblem> problems = assign(list.fields[0], Json{many, {}});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].what == "expected a list of at most 4096 entries, found 4097");
  CHECK(assign(list.fields[0], Json{Json::List(100, Json{true, {}}), {}}).size() == 20);

  // A field may say of itself how many it takes.
  list("labels", texts, between(0, 5000), "");
  CHECK(assign(list.fields[1], Json{Json::List(5000, Json{std::string("a"), {}}), {}}).empty());
  CHECK(assign(list.fields[1], Json{Json::List(5001, Json{std::string("a"), {}}), {}}).at(0).what ==
        "expected a list of at most 5000 entries, found 5001");
}

TEST_CASE("a value's text holds nothing that a terminal would obey, and reads back") {
  std::string title =
      "\x1B[31m \xC2\x9B"
      "2J \x7F \xE2\x80\xAE \xE2\x80\xA8 \xE2\x81\xA6 caf\xC3\xA9 \xE2\x82\xAC";
  std::vector<std::string> texts = {title};
  FieldList list;
  list("title", title, "");
  list("texts", texts, "");
  const std::string safe = R"("\u001b[31m \u009b2J \u007f \u202e \u2028 \u2066 caf\u00e9 \u20ac")";
  const std::string expected = [&] {  // what a terminal only shows stays as it is
    std::string text = safe;
    text.replace(text.find("\\u00e9"), 6, "\xC3\xA9");
    return text.replace(text.find("\\u20ac"), 6, "\xE2\x82\xAC");
  }();
  CHECK(value_text(list.fields[0]) == expected);
  CHECK(value_text(list.fields[1]) == "[" + expected + "]");
  const std::string before = title;
  CHECK(assign(list.fields[0], json_or_string(value_text(list.fields[0]))).empty());
  CHECK(title == before);
  title = "\xFF";  // of a path; a message may show it
  CHECK(value_text(list.fields[0]) == "\"\xEF\xBF\xBD\"");
}

TEST_CASE("ranges as text") {
  CHECK(FieldRange{}.text().empty());
  CHECK(at_least(2).text() == "at least 2");
  CHECK(above(0).text() == "above 0");
  CHECK(between(1, 1e12).text() == "from 1 to 1000000000000");
  CHECK(half_open(0, 1).text() == "at least 0 and below 1");
  CHECK_FALSE(half_open(0, 1).contains(1));
  CHECK_FALSE(above(0).contains(0));
}

TEST_CASE("values made in code are held against the same ranges") {
  Whole whole;
  whole.part.size = 0;
  whole.part.rate = std::nan("");
  whole.part.pair[1] = std::numeric_limits<double>::infinity();
  const FieldList list = fields_of(whole);
  CHECK(check(*list.find("part.size")).front().what == "must be from 1 to 64, found 0");
  CHECK(check(*list.find("part.rate")).front().what == "must be finite");
  CHECK(check(*list.find("part.pair")).front().what == "must be finite");
  CHECK(check(*list.find("seed")).empty());
}

TEST_CASE("the list as JSON reads back to the same values") {
  Whole whole;
  whole.title = "a \"b\" é";
  whole.part.rate = 0.1 + 0.2;
  whole.part.files = {"p", "q"};
  CHECK(to_json(fields_of(whole)) ==
        "{\n  \"title\": \"a \\\"b\\\" é\",\n  \"seed\": 7,\n  \"part\": {\n    \"size\": 4,\n"
        "    \"rate\": 0.30000000000000004,\n    \"colour\": \"green\",\n    \"on\": true,\n"
        "    \"pair\": [0.9, 0.95],\n    \"files\": [\"p\", \"q\"]\n  }\n}\n");
  FieldList none;
  CHECK(to_json(none) == "{}\n");
}

TEST_CASE("the schema states types, ranges, names and defaults") {
  Whole whole;
  const auto schema = nlohmann::json::parse(json_schema(fields_of(whole), "Test"));
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["properties"]["$schema"]["type"] == "string");
  const auto& part = schema["properties"]["part"];
  CHECK(part["additionalProperties"] == false);
  CHECK(part["description"] == "A part.");
  const auto& p = part["properties"];
  CHECK(p["size"] ==
        nlohmann::json::parse(
            R"({"type":"integer","minimum":1,"maximum":64,"description":"How large.","default":4})"));
  CHECK(p["rate"]["exclusiveMaximum"] == 1);
  CHECK(p["colour"]["enum"] == nlohmann::json::parse(R"(["red","green"])"));
  CHECK(p["colour"]["default"] == "green");
  CHECK(p["pair"]["items"]["minimum"] == 0);
  CHECK(p["pair"]["maxItems"] == 2);
  CHECK(p["files"]["type"] == nlohmann::json::parse(R"(["string","array"])"));
  CHECK(p["on"]["type"] == "boolean");
}

TEST_CASE("the table for people") {
  Whole whole;
  const std::string table = fields_table(fields_of(whole), 50);
  CHECK(table.find("title = \"x\"  (string)\n      A line.\n") != std::string::npos);
  CHECK(table.find("\npart: A part.\n  size = 4  (integer from 1 to 64)\n      How large.\n") !=
        std::string::npos);
  CHECK(table.find("colour = \"green\"  (red | green)\n") != std::string::npos);
  CHECK(table.find("      How fast it goes, in words that are many\n      enough to need") !=
        std::string::npos);
}

TEST_CASE("differences and going back to the default") {
  Whole whole, defaults;
  whole.part.colour = Colour::red;
  whole.seed = 8;
  const FieldList list = fields_of(whole), other = fields_of(defaults);
  const auto found = differences(other, list);
  REQUIRE(found.size() == 2);
  CHECK(found[0].path == "seed");
  CHECK(found[0].before == "7");
  CHECK(found[0].after == "8");
  CHECK(found[1].after == "\"red\"");
  for (const Field& field : list.fields) copy_value(field, *other.find(field.path));
  CHECK(differences(other, list).empty());
}

TEST_CASE("all errors of a config print as one text") {
  const ConfigErrors one({{"a: wrong", "do it", "f:1:2"}});
  CHECK(format(one) == "error[config]: a: wrong\n  --> f:1:2\n  help: do it\n");
  const ConfigErrors three(
      {{"a: wrong", "do it", "f:1:2"}, {"b: wrong", "", ""}, {"c: wrong", "now", "f:3:4"}});
  CHECK(format(three) ==
        "error[config]: a: wrong\n  --> f:1:2\n  help: do it\nerror[config]: b: wrong\n"
        "error[config]: c: wrong\n  --> f:3:4\n  help: now\n");
  CHECK(three.items.size() == 3);
  CHECK(three.kind == ErrorKind::config);
}
