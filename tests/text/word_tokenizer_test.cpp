#include <string>
#include <vector>

#include "catch.hpp"
#include "error_of.hpp"
#include "quern/text/tokenizer.hpp"

using namespace quern;
using test::error_of;

namespace {

Tokenizer words_of(const std::string& text) {
  const Text one{text, {"t.txt", ErrorKind::file}};
  return Tokenizer::words({&one, 1});
}

using Ids = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("the word tokenizer has the unknown word, the newline and the sorted words", "[text]") {
  const Tokenizer t = words_of("the cat  saw\tthe dog.\n\nZo\xC3\xAB saw it");
  CHECK(t.name() == "word");
  CHECK(t.kind() == Tokenizer::Kind::word);
  // <unk> \n Zoë cat dog. it saw the
  CHECK(t.vocab_size() == 8);
  CHECK(t.token_bytes(0) == "<unk>");
  CHECK(t.token_bytes(1) == "\n");
  CHECK(t.token_bytes(2) == "Zo\xC3\xAB");
  CHECK(t.token_bytes(7) == "the");
  CHECK(t.encode("the dog. saw\nit") == Ids{7, 4, 6, 1, 5});
  CHECK(t.encode(" \t the\n\n  cat ") == Ids{7, 1, 1, 3});
  CHECK(t.encode("the dog <unk> t thee") == Ids{7, 0, 0, 0, 0});  // no part of a word is one
  CHECK(t.encode("").empty());
  CHECK(t.encode("  \t").empty());

  const std::vector<Text> texts = {{"b a", {}}, {"c a <unk>", {}}};
  CHECK(Tokenizer::words(texts).encode("a b c") == Ids{2, 3, 4});
}

TEST_CASE("words come back with one space between them and none beside a newline", "[text]") {
  const Tokenizer t = words_of("a b c\n");
  CHECK(t.decode(t.encode("a b c\nb\n\na")) == "a b c\nb\n\na");
  CHECK(t.decode(t.encode("  a \t b\n c x")) == "a b\nc <unk>");
  CHECK(t.decode({}).empty());
  CHECK(t.between(2, 3) == " ");
  CHECK(t.between(0, 2) == " ");
  CHECK(t.between(1, 2).empty());
  CHECK(t.between(2, 1).empty());
  CHECK(Tokenizer::bytes().between(65, 66).empty());
}

TEST_CASE("a given vocabulary keeps its order", "[text]") {
  const std::vector<std::string> words = {"zebra", "ant", "=", "10"};
  const Tokenizer t = Tokenizer::vocabulary(words);
  CHECK(t.encode("10 = ant zebra \n bee") == Ids{5, 4, 3, 2, 1, 0});
  CHECK(Tokenizer::from_json(t.to_json(), "t").encode("10 = ant zebra") == Ids{5, 4, 3, 2});
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"a", "a"}, {""}, {"a b"}, {"a\n"}, {"\t"}, {"<unk>"}, {"\xFF"}}) {
    CHECK_THROWS_AS(Tokenizer::vocabulary(bad), Bug);
  }
}

TEST_CASE("word texts must be UTF-8 and hold a word", "[text]") {
  const Error error = error_of([] { words_of("ab\nc \xED\xA0\x80"); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(error.place == "t.txt:2:3");
  CHECK(std::string(error.what()) == "0xED at byte 5 is not UTF-8, which the word tokenizer reads");
  CHECK(error_of([] {
          words_of("a").encode("b\xFF", {"the prompt", ErrorKind::config});
        }).kind == ErrorKind::config);
  CHECK(error_of([] { words_of(" \n\t"); }).kind == ErrorKind::file);
  CHECK(error_of([] { words_of("<unk>"); }).kind == ErrorKind::file);
}

TEST_CASE("a vocabulary that no tokenizer file could hold is refused", "[text]") {
  const auto words = [](int count, char filling) {  // of 4,090 bytes and a few digits each
    std::string text;
    for (int i = 0; i < count; ++i) text += std::to_string(i) + std::string(4090, filling) + " ";
    return text;
  };
  CHECK(words_of(words(4000, 'a')).vocab_size() == 4002);
  const Error error = error_of([&] { words_of(words(4200, 'a')); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(std::string(error.what()).find("4200 different words") != std::string::npos);
  CHECK(!error.hint.empty());
  CHECK_THROWS_AS(words_of(words(800, '\x01')), Error);  // \u0001 in JSON: 19 MiB
}

TEST_CASE("a word of more than 4 KiB is none", "[text]") {
  CHECK(words_of(std::string(4096, 'a')).vocab_size() == 3);
  const Error error = error_of([] { words_of("b\n" + std::string(4097, 'a')); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(error.place == "t.txt:2:1");
  CHECK(std::string(error.what()) == "a word of 4097 bytes, more than the 4096 that a token may have");
  CHECK(words_of("a").encode(std::string(4097, 'a')) == std::vector<std::int32_t>{0});
  const std::string file =
      R"({"type":"quern-word","version":1,"words":["<unk>","\n",")" + std::string(4097, 'a') + "\"]}";
  CHECK_THROWS_AS(Tokenizer::from_json(file, "tokenizer.json"), Error);
}

TEST_CASE("a word tokenizer's file is read back as it was written", "[text]") {
  const Tokenizer t = words_of("b a \"q\" \\ \x01 \xF0\x9F\x98\x80");
  const std::string json = t.to_json();
  const Tokenizer again = Tokenizer::from_json(json, "tokenizer.json");
  CHECK(again.to_json() == json);
  CHECK(again.vocab_size() == 8);
  CHECK(again.fingerprint() == t.fingerprint());
  CHECK(again.fingerprint() != words_of("b a").fingerprint());
  CHECK(again.encode("a \xF0\x9F\x98\x80") == t.encode("a \xF0\x9F\x98\x80"));
  CHECK(words_of("b a").to_json() ==
        "{\"type\":\"quern-word\",\"version\":1,\"words\":[\"<unk>\",\"\\n\",\"a\",\"b\"]}\n");

  const std::vector<std::string> broken = {
      R"({"type":"quern-word","version":1})",
      R"({"type":"quern-word","version":1,"words":[]})",
      R"({"type":"quern-word","version":1,"words":["<unk>"]})",
      R"({"type":"quern-word","version":1,"words":["\n","<unk>","a"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","a","\n"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n","a","a"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n","a","<unk>"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n","\n"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n",""]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n","a b"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n",7]})",
      R"({"type":"quern-word","version":1,"words":"a"})",
      R"({"type":"quern-word","version":1,"chars":["a"]})",
      R"({"type":"quern-word","version":1,"words":["<unk>","\n"],"chars":["a"]})",
  };
  for (const std::string& text : broken) {
    INFO(text);
    const Error error = error_of([&] { Tokenizer::from_json(text, "bad.json"); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place.rfind("bad.json", 0) == 0);
  }
}
