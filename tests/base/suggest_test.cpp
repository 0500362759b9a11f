#include "quern/base/suggest.hpp"

#include "catch.hpp"

using namespace quern;

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("lerning_rate", "learning_rate") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("nmae", "name") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // the restricted form: no edit inside a swap
}

TEST_CASE("the nearest name") {
  const std::vector<std::string> names = {"d_model",       "n_layers", "n_heads",
                                          "learning_rate", "eps",      "sinusoidal"};
  CHECK(nearest("lerning_rate", names) == "learning_rate");
  CHECK(nearest("D_MODEL", names) == "d_model");
  CHECK(nearest("n_head", names) == "n_heads");
  CHECK(nearest("sinus", names) == "sinusoidal");
  CHECK(nearest("epsilon", names) == "eps");
  CHECK(nearest("", names).empty());
  CHECK(nearest("x", names).empty());
  CHECK(nearest("xyz", names).empty());
  CHECK(nearest(std::string(100000, 'x'), names).empty());
  CHECK(nearest("abc", {}).empty());
}

TEST_CASE("suggestions as text") {
  CHECK(did_you_mean("trian", {"train", "eval"}) == "did you mean \"train\"?");
  CHECK(did_you_mean("plot", {"train", "eval"}).empty());
  CHECK(did_you_mean_or_list("plot", {"train", "eval"}) == "one of: train, eval");
}

TEST_CASE("foreign text is printed safely") {
  CHECK(in_quotes("plain é 😀") == "\"plain é 😀\"");
  CHECK(in_quotes("a\x1b[31m\n") == "\"a\\x1b[31m\\x0a\"");
  CHECK(in_quotes("\xFF\xC3") == "\"\\xff\\xc3\"");
  CHECK(printable("\u202e\u0085\u2028") == "\\xe2\\x80\\xae\\xc2\\x85\\xe2\\x80\\xa8");
  CHECK(printable(std::string(1000, 'a')) == std::string(60, 'a') + "...");
}

TEST_CASE("UTF-8 is checked by the standard's table") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("é") == 2);
  CHECK(utf8_length("€") == 3);
  CHECK(utf8_length("😀") == 4);
  for (const char* broken : {"", "\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80",
                             "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    CHECK(utf8_length(broken) == 0);
  CHECK(first_non_utf8("aé\xFFz") == 3);
  CHECK(first_non_utf8("aé") == 3);
}
