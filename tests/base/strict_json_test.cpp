#include "quern/base/strict_json.hpp"

#include <functional>

#include "catch.hpp"

using namespace quern;

namespace {

JsonDocument parse(std::string_view text) { return parse_strict(text, "f.json", ErrorKind::file); }

/// The error's printed form, "" when there is none.
std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return format(error);
  }
  return "";
}
std::string message(std::string_view text) {
  return message([&] { parse(text); });
}

}  // namespace

TEST_CASE("values and their positions") {
  const JsonDocument d = parse(
      "{\n  \"a\": 1, // one, \"two\": 2\n  \"b\\\"\\\\\" : [ -2,\n\t2.5 ,true,/* : */ null, \"x\\ty\" "
      "],\r\n \"c\":{}}");
  CHECK(d.root.at == TextPosition{1, 1});
  const auto& members = d.object(d.root);
  REQUIRE(members.size() == 3);
  CHECK(members[0].key_at == TextPosition{2, 3});
  CHECK(members[0].value.at == TextPosition{2, 8});
  CHECK(members[0].value.is<std::uint64_t>());
  CHECK(members[1].key == "b\"\\");
  CHECK(members[1].key_at == TextPosition{3, 3});
  const auto& list = d.list(members[1].value);
  REQUIRE(list.size() == 5);
  CHECK(list[0].at == TextPosition{3, 15});
  CHECK(std::get<std::int64_t>(list[0].value) == -2);
  CHECK(list[1].at == TextPosition{4, 2});
  CHECK(std::get<double>(list[1].value) == 2.5);
  CHECK(list[2].at == TextPosition{4, 7});
  CHECK(list[3].at == TextPosition{4, 20});
  CHECK(list[3].is<std::nullptr_t>());
  CHECK(list[4].at == TextPosition{4, 26});
  CHECK(d.string(list[4]) == "x\ty");
  CHECK(members[2].key_at == TextPosition{5, 2});
  CHECK(members[2].value.at == TextPosition{5, 6});
  CHECK(place("f", {}) == "f");
}

TEST_CASE("a column is a byte of its line") {
  const JsonDocument d = parse("[\"é\", 1]");
  CHECK(d.list(d.root)[1].at == TextPosition{1, 8});
}

TEST_CASE("a text that begins further down in its file counts from there") {
  const JsonDocument document = parse_strict("{\n \"a\": 1}", "f", ErrorKind::file, DuplicateKeys::refuse, 7);
  CHECK(document.root.at == TextPosition{7, 1});
  CHECK(document.root.find("a")->at == TextPosition{8, 7});
  for (const std::string text : {"{\"a\": }", "{\"a\": \"\xFF\"}", "{\"a\": 1, \"a\": 2}"}) {
    try {
      parse_strict(text, "f", ErrorKind::file, DuplicateKeys::refuse, 7);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.place.rfind("f:7:", 0) == 0);
    }
  }
}

TEST_CASE("integers") {
  std::int64_t i = 0;
  std::uint64_t u = 0;
  const auto json = [](std::string_view text) { return parse(text).root; };
  CHECK((as_integer(json("1e3"), i) && i == 1000));
  CHECK((as_integer(json("2.0"), i) && i == 2));
  CHECK((as_integer(json("-9223372036854775808"), i) && i == std::numeric_limits<std::int64_t>::min()));
  CHECK((as_integer(json("18446744073709551615"), u) && u == std::numeric_limits<std::uint64_t>::max()));
  CHECK_FALSE(as_integer(json("18446744073709551615"), i));
  CHECK_FALSE(as_integer(json("18446744073709551616"), u));
  CHECK_FALSE(as_integer(json("9007199254740992.0"), i));
  CHECK_FALSE(as_integer(json("3.7"), i));
  CHECK_FALSE(as_integer(json("-1"), u));
  CHECK_FALSE(as_integer(json("\"1\""), i));
}

TEST_CASE("what is refused, and where") {
  CHECK(message("{\"a\":1,\n \"a\":2}") ==
        "error[file]: the key \"a\" stands twice\n  --> f.json:2:2\n  help: the first is at f.json:1:2\n");
  CHECK(message("[1,]") ==
        "error[file]: invalid JSON: unexpected ']', expected a value\n  --> f.json:1:4\n"
        "  help: JSON has no comma after the last entry\n");
  CHECK(message("{\n  \"a\": [1, 2") ==
        "error[file]: invalid JSON: unexpected end of the text, expected ',' or ']'\n  --> f.json:2:13\n"
        "  help: the [ of f.json:2:8 is not closed\n");
  CHECK(message("[NaN]") ==
        "error[file]: invalid JSON: invalid literal\n  --> f.json:1:2\n  help: a number must be finite\n");
  CHECK(message("[\n1e400]") == "error[file]: the number 1e400 is too large\n  --> f.json:2:1\n");
  CHECK(
      message("\xEF\xBB\xBF{}") ==
      "error[file]: begins with a byte order mark\n  --> f.json:1:1\n  help: save it as UTF-8 without BOM\n");
  CHECK(message(std::string_view("{}\n\0", 4)) == "error[file]: holds a NUL byte\n  --> f.json:2:1\n");
  CHECK(message("[\"\xC3\"]") == "error[file]: is not UTF-8 here\n  --> f.json:1:3\n");
  CHECK(message("") ==
        "error[file]: invalid JSON: unexpected end of the text, expected a value\n  --> f.json:1:1\n");
  CHECK(message("{} x") ==
        "error[file]: invalid JSON: invalid literal, expected end of the text\n  --> f.json:1:4\n");
}

TEST_CASE("nesting ends at 64 levels and cannot overflow the stack") {
  CHECK(message(std::string(64, '[') + std::string(64, ']')).empty());
  CHECK(message(std::string(65, '[') + std::string(65, ']')) ==
        "error[file]: nested deeper than 64 levels\n  --> f.json:1:65\n");
  CHECK(message(std::string(100000, '[')) ==
        "error[file]: nested deeper than 64 levels\n  --> f.json:1:65\n");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK(message(objects).find("nested deeper") != std::string::npos);
}

TEST_CASE("a text holds 4,096 values and keys and one more for each six bytes") {
  const auto list = [](std::size_t values, const std::string& each) {
    std::string text = "[" + each;
    for (std::size_t i = 1; i < values; ++i) text += "," + each;
    return text + "]";
  };
  CHECK(message(list(4096, "1")).empty());
  CHECK(message(list(100000, "\"ab\"")).empty() == false);
  CHECK(message(list(100000, "\"abc\"")).empty());
  CHECK(message(list(10000, "1")) ==
        "error[file]: more than 7429 values and keys, too many for a text of 20001 bytes\n  --> "
        "f.json:1:14858\n");
  std::string object = "{\"0\":1";
  for (int i = 1; i < 10000; ++i) object += ",\"" + std::to_string(i) + "\":1";
  CHECK(message(object + "}").find("values and keys, too many") != std::string::npos);
  CHECK(message("[" + list(20000, "[]") + "]").find("values and keys, too many") != std::string::npos);
}

TEST_CASE("white space and comments become spaces, strings stay") {
  const auto plain = [](std::string_view text) { return with_plain_spaces(text, JsonComments::blank); };
  CHECK(plain("{\n\t\"a\\\"//b\n\": 1, // c\r\n /* d\n*/2}") == "{  \"a\\\"//b\n\": 1,               2}");
  CHECK(plain("\"a\\") == "\"a\\");
  CHECK(plain("1 /* \n") == "1 /*  ");
  CHECK(plain("1 / \n") == "1 /  ");
  CHECK(with_plain_spaces("1 // a\n", JsonComments::keep) == "1 // a ");
  CHECK(message("{} /*\n\n").find("--> f.json:1:4") != std::string::npos);
}

TEST_CASE("every prefix of a text that does not close is refused") {
  const std::string text =
      "{\"a\": [1, -2.5e3, \"x\\u00e9\\\\\", true, null], /* c */ \"b\": {\"c\": false}}";
  for (std::size_t n = 0; n < text.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(message(text.substr(0, n)).empty());
  }
  CHECK(message(text).empty());
}

TEST_CASE("duplicate keys may be kept for the caller to tell") {
  const JsonDocument d = parse_strict("{\"a\":1,\"a\":2}", "f", ErrorKind::config, DuplicateKeys::keep);
  CHECK(d.object(d.root).size() == 2);
}

TEST_CASE("typed access names the place") {
  const JsonDocument d =
      parse("{\"n\": 70000,\n \"x\": 3.5, \"s\": \"t\", \"b\": true, \"l\": [], \"m\": -1}");
  const auto& root = d.root;
  CHECK(d.integer(d.member(root, "n"), 0, 70000) == 70000);
  CHECK(d.number(d.member(root, "n")) == 70000.0);
  CHECK(d.number(d.member(root, "m")) == -1.0);
  CHECK(d.boolean(d.member(root, "b")));
  CHECK(d.unsigned_integer(d.member(root, "n")) == 70000);
  const auto fails = [&](auto action) { return message(std::function<void()>(action)); };
  CHECK(fails([&] { d.member(root, "q"); }) == "error[file]: the key \"q\" is missing\n  --> f.json:1:1\n");
  CHECK(fails([&] { d.member(d.member(root, "l"), "q"); }) ==
        "error[file]: expected an object, found a list\n  --> f.json:2:38\n");
  CHECK(fails([&] { d.integer(d.member(root, "n"), 0, 65535); }) ==
        "error[file]: must be from 0 to 65535, found 70000\n  --> f.json:1:7\n");
  CHECK(fails([&] { d.integer(d.member(root, "x"), 0, 9); }) ==
        "error[file]: expected an integer, found 3.5\n  --> f.json:2:7\n");
  CHECK(fails([&] { d.unsigned_integer(d.member(root, "m")); }) ==
        "error[file]: expected an integer of at least 0, found -1\n  --> f.json:2:47\n");
  CHECK(fails([&] { d.number(d.member(root, "s")); }) ==
        "error[file]: expected a number, found \"t\"\n  --> f.json:2:17\n");
  CHECK(fails([&] { d.boolean(d.member(root, "s")); }) ==
        "error[file]: expected true or false, found \"t\"\n  --> f.json:2:17\n");
  CHECK(fails([&] { d.string(d.member(root, "b")); }) ==
        "error[file]: expected a string, found true\n  --> f.json:2:27\n");
  CHECK(fails([&] { d.list(root); }) == "error[file]: expected a list, found an object\n  --> f.json:1:1\n");
}
