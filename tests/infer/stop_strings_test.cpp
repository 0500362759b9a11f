#include "quern/infer/stop_strings.hpp"

#include "catch.hpp"

namespace quern {
namespace {

struct Streamed {
  std::string text;
  bool found;
  bool operator==(const Streamed&) const = default;
};

Streamed stream(const std::vector<std::string>& stop, const std::string& text, std::size_t piece) {
  StopStrings strings(stop);
  Streamed out{"", false};
  for (std::size_t at = 0; at < text.size() && !strings.found(); at += piece)
    out.text += strings.push(std::string_view(text).substr(at, piece));
  out.text += strings.finish();
  out.found = strings.found();
  return out;
}

TEST_CASE("the text ends before the stop string, however it is cut into pieces") {
  struct Case {
    std::vector<std::string> stop;
    std::string text;
    Streamed wanted;
  };
  const std::vector<Case> table = {
      {{}, "abc", {"abc", false}},
      {{"x"}, "abc", {"abc", false}},
      {{"b"}, "abc", {"a", true}},
      {{"abc"}, "abc", {"", true}},
      {{"abcd"}, "abcabc", {"abcabc", false}},  // its beginnings come out in the end
      {{"aab"}, "aaaab!", {"aa", true}},        // a beginning inside a beginning
      {{"abab"}, "abaabab!", {"aba", true}},
      {{"bc", "abcd"}, "abcd", {"a", true}},  // the one that is complete first
      {{"abc", "c"}, "xabc", {"x", true}},
      {{"c", "abc"}, "xabc", {"x", true}},  // both end here: the longer
      {{"\n\n"}, "one\ntwo\n\nthree", {"one\ntwo", true}},
      {{"é"}, "caf\xc3\xa9!", {"caf", true}},
  };
  for (const Case& c : table)
    for (std::size_t piece = 1; piece <= c.text.size(); ++piece) {
      CAPTURE(c.text, piece);
      CHECK(stream(c.stop, c.text, piece) == c.wanted);
    }
}

TEST_CASE("only what may become a stop string is held back") {
  StopStrings strings({"END", "NOTE"});
  CHECK(strings.push("one E") == "one ");
  CHECK(strings.push("N") == "");
  CHECK(strings.push("O") == "E");  // "NO" may still become NOTE
  CHECK(strings.push("x") == "NOx");
  CHECK(strings.push("y") == "y");
  CHECK(strings.push("EN") == "");
  CHECK(strings.push("D and more") == "");
  CHECK(strings.found());
  CHECK(strings.finish() == "");
}

}  // namespace
}  // namespace quern
