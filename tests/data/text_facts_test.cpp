#include "quern/data/text_facts.hpp"

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/data/corpus.hpp"

using namespace quern;
using test::put;
using test::TemporaryDirectory;

namespace {

TextFacts facts_of(const std::string& text, std::size_t piece = 1 << 20) {
  const TemporaryDirectory directory;
  put(directory / "text", text);
  Files files;
  return describe_text(files, directory / "text", piece);
}

}  // namespace

TEST_CASE("a text in figures, whatever the pieces it is read in") {
  const std::string text = "Grüße 日本\n😀 a\nlast";
  for (std::size_t piece = 1; piece <= text.size() + 1; ++piece) {
    const TextFacts facts = facts_of(text, piece);
    CAPTURE(piece);
    CHECK(facts.bytes == text.size());
    CHECK(facts.lines == 3);
    CHECK_FALSE(facts.invalid);
    CHECK(facts.characters == 17);
    CHECK(facts.distinct == 14);  // a blank, a newline and an a twice
    CHECK(facts.fingerprint == facts_of(text).fingerprint);
  }
}

TEST_CASE("lines are counted with and without a last newline") {
  CHECK(facts_of("").lines == 0);
  CHECK(facts_of("\n").lines == 1);
  CHECK(facts_of("a\nb").lines == 2);
  CHECK(facts_of("a\nb\n").lines == 2);
}

TEST_CASE("the first byte that is not UTF-8 is told with its place") {
  const std::string start = "ab\nc\xC3\xBC";  // 6 bytes; the last character ends column 3 of line 2
  for (const std::string& bad : {std::string("\xFF"), std::string("\xE6\x97"),
                                 std::string("\xC3"
                                             "a\xFF")}) {
    for (const std::size_t piece : {1UL, 2UL, 3UL, 100UL}) {
      const TextFacts facts = facts_of(start + bad, piece);
      CAPTURE(piece);
      REQUIRE(facts.invalid);
      CHECK(facts.invalid->offset == 6);
      CHECK(facts.invalid->at == TextPosition{2, 4});
      CHECK(facts.invalid->byte == static_cast<std::uint8_t>(bad[0]));
      CHECK(facts.bytes == start.size() + bad.size());
      CHECK(facts.lines == 2);
      CHECK(facts.characters == 0);
      CHECK(facts.distinct == 0);
    }
  }
}

TEST_CASE("the fingerprint is the one that a run on this text records; tokens are as many") {
  const std::string text = "The quick brown fox jumps over the lazy dög.\n";
  const TextFacts facts = facts_of(text);
  const std::vector<TextFile> texts = {{"t.txt", text, std::nullopt}};
  const Corpus corpus = make_corpus(texts, make_tokenizer("char", texts), 0, 4);
  CHECK(facts.fingerprint == corpus.fingerprint);
  CHECK(facts.characters == static_cast<std::uint64_t>(view(corpus.tokens).size()));
  CHECK(facts.distinct == static_cast<std::uint64_t>(corpus.tokenizer.vocab_size()));
}

TEST_CASE("a text that is none is refused") {
  const TemporaryDirectory directory;
  Files files;
  for (const char* name : {"", "absent"}) {
    try {
      describe_text(files, directory / name);
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::file);
    }
  }
}
