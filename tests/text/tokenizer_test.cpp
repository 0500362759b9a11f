#include "quern/text/tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "error_of.hpp"
#include "quern/base/rng.hpp"

using namespace quern;
using test::error_of;

namespace {

Tokenizer characters_of(const std::string& text, const std::string& name = "t.txt") {
  const std::vector<Text> texts = {{text, {name, ErrorKind::file}}};
  return Tokenizer::characters(texts);
}

std::string random_bytes(std::size_t size, std::uint64_t seed) {
  std::string bytes(size, '\0');
  const RandomStream stream(seed, 1, 0);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(stream.at(i, 0)[0]);
  return bytes;
}

}  // namespace

TEST_CASE("the byte tokenizer is the identity on every byte", "[text]") {
  const Tokenizer t = Tokenizer::bytes();
  CHECK(t.vocab_size() == 256);
  CHECK(t.name() == "byte");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    CHECK(t.encode(one) == std::vector<std::int32_t>{byte});
    CHECK(t.token_bytes(byte) == one);
  }
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const std::string bytes = random_bytes(1000, seed);
    CHECK(t.decode(t.encode(bytes)) == bytes);
  }
  std::size_t lost = 0;
  for (std::uint64_t seed = 0; seed < 1'000'000; ++seed) {
    const std::string bytes = random_bytes(seed % 13, seed);
    lost += t.decode(t.encode(bytes)) != bytes;
  }
  CHECK(lost == 0);
  CHECK(t.encode("").empty());
  CHECK(t.decode({}).empty());
}

TEST_CASE("the char tokenizer has the sorted distinct characters", "[text]") {
  const Tokenizer t = characters_of("hello, w\xC3\xB6rld\n\xF0\x9F\x98\x80");
  // \n ' ' ',' d e h l o r w ö 😀
  CHECK(t.vocab_size() == 12);
  CHECK(t.name() == "char");
  CHECK(t.encode("\n hold\xC3\xB6\xF0\x9F\x98\x80") == std::vector<std::int32_t>{0, 1, 5, 7, 6, 3, 10, 11});
  CHECK(t.token_bytes(10) == "\xC3\xB6");
  CHECK(t.decode(t.encode("wo\xC3\xB6")) == "wo\xC3\xB6");
  CHECK_THROWS_AS(t.token_bytes(12), Bug);
  CHECK_THROWS_AS(t.token_bytes(-1), Bug);
}

TEST_CASE("several texts make one vocabulary; ids come in both widths", "[text]") {
  const std::vector<Text> texts = {{"ba", {}}, {"ca", {}}};
  const Tokenizer t = Tokenizer::characters(texts);
  CHECK(t.vocab_size() == 3);
  std::vector<std::uint16_t> ids;
  for (const Text& text : texts) t.append(ids, text);
  CHECK(ids == std::vector<std::uint16_t>{1, 0, 2, 0});
  std::vector<std::int32_t> wide;
  for (const Text& text : texts) t.append(wide, text);
  CHECK(wide == std::vector<std::int32_t>{1, 0, 2, 0});
}

TEST_CASE("characters beyond the basic plane have ids too", "[text]") {
  const std::string text =
      "a\xEF\xBF\xBD\xF0\x90\x80\x80\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF";  // U+61 FFFD 10000 1F600 10FFFF
  const Tokenizer t = characters_of(text);
  CHECK(t.encode(text) == std::vector<std::int32_t>{0, 1, 2, 3, 4});
  CHECK(t.decode(t.encode(text)) == text);
  for (const char* unknown : {"\xEF\xBF\xBC", "\xF0\x90\x80\x81", "\xF0\x9F\x98\x81", "\xF4\x8F\xBF\xBE"})
    CHECK_THROWS_AS(t.encode(unknown), Error);
}

TEST_CASE("an unknown character is named with its place and the tokenizer", "[text]") {
  const Tokenizer t = characters_of("abc\n");
  const Error prompt = error_of([&] { t.encode("ab\xC3\xA9", {"the prompt", ErrorKind::config}); });
  CHECK(prompt.kind == ErrorKind::config);
  CHECK(std::string(prompt.what()) ==
        "the prompt: unknown character '\xC3\xA9' (U+00E9) at byte 2: the char tokenizer knows the 4 "
        "characters of "
        "the text that it was made from");
  CHECK(prompt.place.empty());
  CHECK(!prompt.hint.empty());

  const Error file = error_of([&] { t.encode("abc\nab!", {"more.txt", ErrorKind::file}); });
  CHECK(file.kind == ErrorKind::file);
  CHECK(std::string(file.what()).find("'!' (U+0021) at byte 6") != std::string::npos);
  CHECK(file.place == "more.txt:2:3");

  // Beyond the largest known code point and between two known ones.
  CHECK_THROWS_AS(t.encode("\xF4\x8F\xBF\xBF"), Error);
  CHECK_THROWS_AS(t.encode("B"), Error);
}

TEST_CASE("char texts must be UTF-8", "[text]") {
  const std::vector<std::string> broken = {"\x80",         "\xFF",     "\xC0\xAF",         "\xE0\x9F\xBF",
                                           "\xED\xA0\x80", "\xE2\x82", "\xF4\x90\x80\x80", "\xF0\x9F\x98"};
  for (const std::string& bytes : broken) {
    const Error error = error_of([&] { characters_of("ab\nc" + bytes); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == "t.txt:2:2");
    CHECK(std::string(error.what()).find("at byte 4 is not UTF-8") != std::string::npos);
    CHECK_THROWS_AS(characters_of("abc").encode("a" + bytes), Error);
    CHECK(Tokenizer::bytes().encode("a" + bytes).size() == 1 + bytes.size());
  }
  CHECK(error_of([] { characters_of(""); }).kind == ErrorKind::file);
}

TEST_CASE("tokenizer.json is read back as it was written", "[text]") {
  const Tokenizer t =
      characters_of(std::string("\0\t\"\\\x7F", 5) + "az\xC3\xA9\xEF\xBF\xBF\xF4\x8F\xBF\xBF");
  const std::string json = t.to_json();
  const Tokenizer again = Tokenizer::from_json(json, "tokenizer.json");
  CHECK(again.to_json() == json);
  CHECK(again.vocab_size() == 10);
  for (int id = 0; id < 10; ++id) CHECK(again.token_bytes(id) == t.token_bytes(id));
  CHECK(again.encode("z\xC3\xA9") == t.encode("z\xC3\xA9"));

  CHECK(Tokenizer::bytes().to_json() == "{\"type\":\"quern-byte\",\"version\":1}\n");
  CHECK(Tokenizer::from_json(Tokenizer::bytes().to_json(), "b").kind() == Tokenizer::Kind::byte);
  CHECK(characters_of("ba\n").to_json() ==
        "{\"type\":\"quern-char\",\"version\":1,\"chars\":[\"\\n\",\"a\",\"b\"]}\n");

  const auto path = std::filesystem::temp_directory_path() / "quern_tokenizer_test.json";
  std::ofstream(path) << json;
  CHECK(Tokenizer::load(path).to_json() == json);
  std::filesystem::remove(path);
  CHECK(error_of([&] { Tokenizer::load(path); }).kind == ErrorKind::file);
}

TEST_CASE("a tokenizer file that is anything else is refused", "[text]") {
  const std::vector<std::string> broken = {
      "",
      "[]",
      "null",
      "{}",
      R"({"type":"quern-byte"})",
      R"({"type":"quern-byte","version":2})",
      R"({"type":"quern-byte","version":1.5})",
      R"({"type":"quern-byte","version":1,"chars":["a"]})",
      R"({"type":"quern-byte","version":1,"version":1})",
      R"({"type":"BPE","version":1})",
      R"({"type":7,"version":1})",
      R"({"type":"quern-char","version":1})",
      R"({"type":"quern-char","version":1,"chars":[]})",
      R"({"type":"quern-char","version":1,"chars":"ab"})",
      R"({"type":"quern-char","version":1,"chars":["a","a"]})",
      R"({"type":"quern-char","version":1,"chars":["b","a"]})",
      R"({"type":"quern-char","version":1,"chars":["ab"]})",
      R"({"type":"quern-char","version":1,"chars":[""]})",
      R"({"type":"quern-char","version":1,"chars":[1]})",
      R"({"type":"quern-char","version":1,"chars":["\ud800"]})",
      R"({"type":"quern-char","version":1,"chars":["a"],"extra":0})",
      R"({"type":"quern-char","version":1,"chars":["a"]} x)",
      "{\"type\":\"quern-char\",\"version\":1,\"chars\":[\"\xFF\"]}",
  };
  for (const std::string& json : broken) {
    INFO(json);
    const Error error = error_of([&] { Tokenizer::from_json(json, "bad.json"); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place.rfind("bad.json", 0) == 0);
  }
  const Error order = error_of(
      [] { Tokenizer::from_json("{\"type\":\"quern-char\",\"version\":1,\n\"chars\":[\"b\",\"a\"]}", "x"); });
  CHECK(std::string(order.what()) == "'a' (U+0061) is out of order after 'b' (U+0062)");
  CHECK(order.place == "x:2:14");
}

TEST_CASE("a fingerprint tells tokenizers apart and never changes", "[text]") {
  CHECK(characters_of("ab").fingerprint() == characters_of("bbaa").fingerprint());
  CHECK(characters_of("ab").fingerprint() != characters_of("ac").fingerprint());
  CHECK(characters_of("ab").fingerprint() != characters_of("abc").fingerprint());
  // FNV-1a of the byte tokenizer's JSON, fixed: checkpoints record it.
  CHECK(Tokenizer::bytes().fingerprint() == "2fe7282c18d3bf68");
}
