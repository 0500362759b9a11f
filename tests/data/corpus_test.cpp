#include "quern/data/corpus.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "error_of.hpp"
#include "quern/base/rng.hpp"

using namespace quern;
using test::error_of;
namespace fs = std::filesystem;

namespace {

/// A directory of the test's own, removed at its end.
struct Scratch {
  fs::path root = fs::temp_directory_path() / ("quern_corpus_test_" + std::to_string(getpid()));
  Scratch() { fs::create_directories(root); }
  ~Scratch() { fs::remove_all(root); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(root / name, std::ios::binary) << content;
    return (root / name).string();
  }
};

TextFile text_of(const std::string& bytes) { return {"t.txt", bytes, std::nullopt}; }

Corpus corpus_of(const std::vector<TextFile>& texts, double val_fraction, std::int64_t context_length,
                 const std::string& tokenizer = "char") {
  return make_corpus(texts, make_tokenizer(tokenizer, texts), val_fraction, context_length);
}

std::string letters(std::size_t size) {
  std::string text(size, 'a');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * i + i / 7) % 26);
  return text;
}

}  // namespace

TEST_CASE("the training split is the floor of the decimal's product", "[data]") {
  CHECK(train_size(1115394, 0.1) == 1003854);  // nanoGPT's split of tinyshakespeare: 1,003,854 and 111,540
  CHECK(train_size(10, 0.1) == 9);
  CHECK(train_size(10, 0.9) == 1);  // 1 - 0.9 is 0.09999999999999998 in binary
  CHECK(train_size(11, 0.9) == 1);
  CHECK(train_size(1000, 0.3) == 700);
  CHECK(train_size(999, 0.3) == 699);
  CHECK(train_size(7, 0) == 7);
  CHECK(train_size(7, 1) == 0);
  CHECK(train_size(0, 0.5) == 0);
  // Against integers: val_fraction p / 100 of n tokens leaves floor((100 - p) n / 100).
  std::int64_t wrong = 0;
  for (std::int64_t p = 0; p <= 100; ++p) {
    for (std::int64_t n = 0; n < 2000; ++n) {
      if (train_size(n, static_cast<double>(p) / 100) != (100 - p) * n / 100) ++wrong;
      const std::int64_t large = 123456789000 + n;
      if (train_size(large, static_cast<double>(p) / 100) != (100 - p) * large / 100) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("tokens, splits and names of a corpus", "[data]") {
  const Corpus corpus = corpus_of({text_of("abcabcabca")}, 0.3, 2);
  CHECK(corpus.tokenizer.vocab_size() == 3);
  CHECK(corpus.n_train == 7);
  REQUIRE(corpus.train().size() == 7);
  REQUIRE(corpus.val().size() == 3);
  for (int i = 0; i < 7; ++i) CHECK(corpus.train()[i] == i % 3);
  for (int i = 0; i < 3; ++i) CHECK(corpus.val()[i] == (7 + i) % 3);
  CHECK(corpus.name == "t.txt");
  CHECK_FALSE(corpus.entropy_floor);
  CHECK_THROWS_AS(corpus.val()[3], Bug);

  const Corpus joined = corpus_of({{"a.txt", "ab", std::nullopt}, {"b.txt", "ca", std::nullopt}}, 0, 3);
  CHECK(joined.name == "a.txt and 1 more");
  REQUIRE(joined.train().size() == 4);
  CHECK(joined.train()[2] == 2);
  CHECK(joined.val().size() == 0);

  const Corpus all_validation = corpus_of({text_of("abcd")}, 1, 3);
  CHECK(all_validation.train().size() == 0);
  CHECK(all_validation.val().size() == 4);
}

TEST_CASE("a text of tinyshakespeare's size has its splits", "[data]") {
  const Corpus corpus = corpus_of({text_of(letters(1115394))}, 0.1, 256);
  CHECK(corpus.train().size() == 1003854);
  CHECK(corpus.val().size() == 111540);
}

TEST_CASE("more than 65,536 characters need wide tokens", "[data]") {
  std::string text;
  for (char32_t c = 0x10000; c < 0x10000 + 65537; ++c) {
    text += {static_cast<char>(0xF0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 0x3F)),
             static_cast<char>(0x80 | ((c >> 6) & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
  const Corpus wide = corpus_of({text_of(text)}, 0, 8);
  CHECK(std::holds_alternative<std::vector<std::int32_t>>(wide.tokens));
  CHECK(wide.train()[65536] == 65536);
  text.resize(text.size() - 4);
  const Corpus narrow = corpus_of({text_of(text)}, 0, 8);
  CHECK(std::holds_alternative<std::vector<std::uint16_t>>(narrow.tokens));
  CHECK(narrow.train()[65535] == 65535);
}

TEST_CASE("a split without a window is refused with what is needed", "[data]") {
  const Error twenty = error_of([] { corpus_of({text_of(letters(20))}, 0.1, 64); });
  CHECK(twenty.kind == ErrorKind::file);
  CHECK(std::string(twenty.what()) == "the text has 20 tokens, one window of context_length 64 needs 65");
  CHECK(twenty.place == "t.txt");
  CHECK(!twenty.hint.empty());
  CHECK(error_of([] { corpus_of({text_of(letters(64))}, 0, 64); }).kind == ErrorKind::file);
  CHECK(corpus_of({text_of(letters(65))}, 0, 64).train().size() == 65);

  const Error validation = error_of([] { corpus_of({text_of(letters(200))}, 0.1, 64); });
  CHECK(validation.kind == ErrorKind::file);
  CHECK(std::string(validation.what()) ==
        "the validation split has 20 tokens of the text's 200 (val_fraction 0.1), one window of "
        "context_length 64 "
        "needs 65");
  CHECK(validation.hint.find("val_fraction 0") != std::string::npos);
  CHECK(corpus_of({text_of(letters(650))}, 0.1, 64).val().size() == 65);
  CHECK(error_of([] { corpus_of({text_of(letters(640))}, 0.1, 64); }).kind == ErrorKind::file);

  const Error training = error_of([] { corpus_of({text_of(letters(200))}, 0.9, 64); });
  CHECK(std::string(training.what()).rfind("the training split has 20 tokens", 0) == 0);
  CHECK(error_of([] { corpus_of({text_of(letters(64))}, 1, 64); }).kind == ErrorKind::file);
  CHECK(corpus_of({text_of(letters(65))}, 1, 64).val().size() == 65);
}

TEST_CASE("a text that cannot be read is one clear error", "[data]") {
  const Scratch scratch;
  const auto reading = [](const std::string& path) { return error_of([&] { read_texts({path}); }); };

  const Error missing = reading((scratch.root / "none.txt").string());
  CHECK(missing.kind == ErrorKind::file);
  CHECK(missing.place.find("none.txt") != std::string::npos);
  CHECK(missing.hint.find("regular file") != std::string::npos);

  const Error empty = reading(scratch.write("empty.txt", ""));
  CHECK(empty.kind == ErrorKind::file);
  CHECK(std::string(empty.what()) == "the text is empty");

  CHECK(reading(scratch.root.string()).kind == ErrorKind::file);
  CHECK(reading("/dev/zero").kind == ErrorKind::file);
  const std::string pipe = (scratch.root / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(reading(pipe).kind == ErrorKind::file);  // and does not wait for a writer

  const std::string locked = scratch.write("locked.txt", "abc");
  fs::permissions(locked, fs::perms::none);
  if (access(locked.c_str(), R_OK) != 0) CHECK(reading(locked).kind == ErrorKind::io);
}

TEST_CASE("texts larger than memory are refused before they are read", "[data]") {
  const Scratch scratch;
  const std::string a = scratch.write("a.txt", letters(100));
  const std::string b = scratch.write("b.txt", letters(50));
  CHECK(read_texts({a, b}, 450).size() == 2);
  const Error together = error_of([&] { read_texts({a, b}, 449); });
  CHECK(together.kind == ErrorKind::file);
  CHECK(together.place == b);
  CHECK(std::string(together.what()).find("larger than memory") != std::string::npos);
  CHECK(error_of([&] { read_texts({a}, 299); }).place == a);
  CHECK(error_of([&] { read_texts({a, a, a}, 310); }).kind == ErrorKind::file);
  CHECK(physical_memory() > (1U << 20));
}

TEST_CASE("the entropy beside a text is the floor where a token is a character", "[data]") {
  const Scratch scratch;
  const std::string path = scratch.write("story.txt", letters(100));
  CHECK_FALSE(read_texts({path})[0].entropy_nats_per_char);
  scratch.write("story.meta.json", R"({"seed": 7, "entropy_nats_per_char": 0.625})");
  const auto floor_of = [&](const std::vector<std::string>& paths, const std::string& tokenizer) {
    return corpus_of(read_texts(paths), 0, 8, tokenizer).entropy_floor;
  };
  CHECK(floor_of({path}, "char") == 0.625);
  CHECK(floor_of({path}, "byte") == 0.625);
  CHECK_FALSE(floor_of({path, path}, "char"));
  scratch.write("story.txt", letters(100) + "\xC3\xA9");
  CHECK(floor_of({path}, "char") == 0.625);
  CHECK_FALSE(floor_of({path}, "byte"));  // a character of two bytes is two tokens

  scratch.write("story.meta.json", R"({"seed": 7})");
  CHECK_FALSE(floor_of({path}, "char"));
  for (const char* broken : {"{", R"({"entropy_nats_per_char": "low"})", R"({"entropy_nats_per_char": 0})",
                             R"({"entropy_nats_per_char": -1})"}) {
    scratch.write("story.meta.json", broken);
    const Error error = error_of([&] { read_texts({path}); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place.find("story.meta.json") != std::string::npos);
  }
}

TEST_CASE("the tokenizer is byte, char, a file, or given", "[data]") {
  const Scratch scratch;
  const std::string text = scratch.write("t.txt", "abcabcabc");
  const std::string vocabulary =
      scratch.write("tokenizer.json", R"({"type":"quern-char","version":1,"chars":["a","b","c","z"]})");
  DataConfig config;
  config.text = {text};
  config.val_fraction = 0;
  config.tokenizer = "byte";
  CHECK(load_corpus(config, 4).tokenizer.vocab_size() == 256);
  config.tokenizer = "char";
  CHECK(load_corpus(config, 4).tokenizer.vocab_size() == 3);
  CHECK(load_corpus(config, 4, Tokenizer::bytes()).tokenizer.vocab_size() == 256);
  config.tokenizer = vocabulary;
  CHECK(load_corpus(config, 4).tokenizer.vocab_size() == 4);

  config.text = {scratch.write("other.txt", "abcabd")};
  const Error unknown = error_of([&] { load_corpus(config, 4); });
  CHECK(unknown.kind == ErrorKind::file);
  CHECK(unknown.place == config.text[0] + ":1:6");
  config.tokenizer = "chars";
  CHECK(error_of([&] { load_corpus(config, 4); }).hint.find("\"char\"") != std::string::npos);
}

TEST_CASE("who waits for a long text is told how far its reading has come") {
  const Scratch scratch;
  std::string text;
  while (text.size() < 5 << 20) text += "one two\nthree ";
  DataConfig config;
  config.text = {scratch.write("long.txt", text)};
  const auto size = static_cast<std::int64_t>(text.size());
  for (const bool given : {false, true})
    for (const char* tokenizer : {"char", "word"}) {
      config.tokenizer = tokenizer;
      std::vector<std::int64_t> told;
      load_corpus(config, 4,
                  given ? std::optional(make_tokenizer(tokenizer, std::vector{text_of(text)})) : std::nullopt,
                  [&](std::int64_t done, std::int64_t total) {
                    CHECK(total == size);
                    told.push_back(done);
                  });
      CAPTURE(tokenizer, given, told);
      CHECK(told.size() > 4);
      CHECK(std::is_sorted(told.begin(), told.end()));
      CHECK(told[told.size() - 2] > size - (2 << 20));
      CHECK(told[told.size() - 2] < size);
      CHECK(told.back() == size);
    }
}

TEST_CASE("the fingerprint follows every byte and where texts end", "[data]") {
  const auto fingerprint = [](const std::vector<TextFile>& texts) {
    return corpus_of(texts, 0, 1).fingerprint;
  };
  const std::string one = fingerprint({text_of("abcd")});
  CHECK(one.size() == 16);
  CHECK(fingerprint({{"moved.txt", "abcd", 1.0}}) == one);
  CHECK(fingerprint({text_of("abce")}) != one);
  CHECK(fingerprint({text_of("abcdd")}) != one);
  CHECK(fingerprint({text_of("ab"), text_of("cd")}) != one);
  CHECK(fingerprint({text_of("ab"), text_of("cd")}) != fingerprint({text_of("cd"), text_of("ab")}));
}

TEST_CASE("documents end with their text or behind an end-of-text mark", "[data]") {
  const std::vector<TextFile> texts = {text_of("ab<|endoftext|>c<|endoftext|>"), text_of("<|endoftext|>d"),
                                       text_of("ef")};
  for (const char* tokenizer : {"char", "byte"}) {
    const Corpus stream = make_corpus(texts, make_tokenizer(tokenizer, texts), 0, 4);
    const Corpus packed = make_corpus(texts, make_tokenizer(tokenizer, texts), 0.1, 4, PackKind::documents);
    CHECK(stream.documents.empty());
    CHECK(!stream.train().has_documents());
    CHECK(packed.documents == std::vector<std::int64_t>{0, 15, 29, 42, 43});  // a mark alone is one, too
    CHECK(view(packed.tokens).size() == view(stream.tokens).size());
    for (std::int64_t i = 0; i < 45; ++i) CHECK(view(packed.tokens)[i] == view(stream.tokens)[i]);
    std::vector<std::int32_t> starts(5);
    packed.train().copy_starts(13, 5, starts.data());
    CHECK(starts == std::vector<std::int32_t>{0, 0, 2, 2, 2});
    REQUIRE(packed.val().size() == 5);  // from token 40 on
    packed.val().copy_starts(0, 5, starts.data());
    CHECK(starts == std::vector<std::int32_t>{0, 0, 2, 3, 3});
  }
  const std::vector<TextFile> bad = {text_of("a<|endoftext|>b\nc\xff")};
  const Error error = error_of([&] {
    const Tokenizer tokenizer = make_tokenizer("char", std::vector<TextFile>{text_of("abc<|endoftxr>\n")});
    make_corpus(bad, tokenizer, 0, 2, PackKind::documents);
  });
  CHECK(error.place == "t.txt:2:2");  // counted from the text's beginning, not the document's
}
