// What libFuzzer does for hours, for a moment: every seed of every target, cut short at every byte and with
// bits flipped, and inputs of a mebibyte that were made to hurt.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heap.hpp"
#include "quern/base/check.hpp"
#include "quern/base/rng.hpp"
#include "quern/text/utf8.hpp"
#include "quern/train/config.hpp"
#include "target.hpp"

using namespace quern;
using test::FuzzTarget;

namespace {

/// Fails the test when the reader ends in something else than a result or a good error, or takes too much
/// memory.
void feed(const FuzzTarget& target, const std::string& input, const std::string& about) {
  std::string wrong;
  test::watch_heap();
  try {
    test::run_target(target, input);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  const std::uint64_t bytes = test::peak_bytes();
  if (wrong.empty() && bytes <= target.memory(input)) return;
  CAPTURE(target.name, about, input.size(), bytes, input.substr(0, 400));
  CHECK(wrong == "");
  CHECK(bytes <= target.memory(input));
}

}  // namespace

TEST_CASE("fuzz: every target has seeds, and no seed is without a target") {
  for (const FuzzTarget& target : test::fuzz_targets()) {
    CAPTURE(target.name);
    CHECK(test::seeds_of(target.name).size() > 0);
  }
  CHECK(test::fuzz_targets().size() == 14);
}

TEST_CASE("fuzz: seeds, whole and cut short at every byte") {
  for (const FuzzTarget& target : test::fuzz_targets())
    for (const std::string& seed : test::seeds_of(target.name))
      for (std::size_t size = 0; size <= seed.size(); ++size)
        feed(target, seed.substr(0, size), "cut to " + std::to_string(size));
}

TEST_CASE("fuzz: seeds with flipped bits") {
  std::uint64_t draw = 0;
  for (const FuzzTarget& target : test::fuzz_targets())
    for (const std::string& seed : test::seeds_of(target.name))
      for (int round = 0; round < 200 && !seed.empty(); ++round) {
        std::string damaged = seed;
        for (int flips = 1 + round % 3; flips > 0; --flips) {
          const auto bits = RandomStream(1, site_hash(target.name), 0).at(draw++, 0);
          const std::uint64_t bit = below(8 * seed.size(), bits[0], bits[1]);
          damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        }
        feed(target, damaged, "flipped");
      }
}

namespace {

/// Of a hostile input: a mebibyte with QUERN_LONG_TESTS, else a quarter.
const std::size_t size = std::getenv("QUERN_LONG_TESTS") != nullptr ? 1 << 20 : 1 << 18;

/// `part` over and over.
std::string many(const std::string& part) {
  std::string text;
  while (text.size() + part.size() <= size) text += part;
  return text;
}

/// f(0) f(1) …
template <class F>
std::string counted(F&& f) {
  std::string text;
  for (int i = 0; text.size() < size - 200; ++i) text += f(std::to_string(i));
  return text;
}

/// Texts that made some reader of some program run out of time, stack or memory.
std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts;
  for (const char* part : {"[",
                           "{\"a\":",
                           "\n",
                           " ",
                           "//\n",
                           "/*",
                           "a",
                           "\t",
                           "\"",
                           "\\",
                           "1",
                           "-",
                           "null,",
                           "[],",
                           "{},\n",
                           "\xFF",
                           "\xF4\x8F\xBF\xBF",
                           "\x01",
                           "a\tb\n",
                           "a b\n",
                           "\t\n",
                           "0\t0\n",
                           "{\"text\":\"a\",\"label\":\"b\"}\n",
                           "{\"tokens\":[\"a\"],\"tags\":[\"b\"]}\n",
                           "{\"event\":\"x\"}\n",
                           "<|endoftext|>",
                           "run.max_steps=x\n",
                           "data.text.0=a\n",
                           "optim.betas=[1,2]\n"})
    texts.push_back(many(part));
  for (const char* part :
       {"1,", "\"\",", "null,\n", "[],", "{},", "\"a\",", "1.5e1,", "[[[[[[]]]]]],", "/**/1,"}) {
    const std::string items = many(part);
    for (const char* before : {"[", "{\"data\":{\"text\":[", "{\"run\":{\"profile_steps\":[",
                               "{\"type\":\"quern-word\",\"version\":1,\"words\":[",
                               "{\"type\":\"quern-char\",\"version\":1,\"chars\":[",
                               "{\"tokens\":[\"a\"],\"tags\":[", "{\"event\":["}) {
      texts.push_back(before + items + "0]}");
      texts.push_back(before + items);
    }
  }
  for (const char* before : {"{", "{\"run\":{", "{\"__metadata__\":{", "\"tensors\":{"}) {
    const auto members = [&](const std::string& key, const std::string& value) {
      return before + counted([&](const std::string& i) { return "\"" + key + i + "\":" + value + ","; });
    };
    for (const char* value : {"0", "\"\"", "{}", "[]"}) {
      texts.push_back(members("", value) + "\"a\":0}}");
      texts.push_back(members("lerning_rate", value) + "\"a\":0}");
    }
    texts.push_back(before + many("\"a\":1,") + "\"a\":1}}");
  }
  texts.push_back("{\"" + many("a") + "\":1}");
  texts.push_back("{\"run\":{\"name\":\"" + many("a\\n") + "\"}}");
  texts.push_back("{\"data\":{\"labels\":[" + many("\"ab\",") + "\"a\"]}}");
  texts.push_back("{\"data\":{\"labels\":[" + many("\"abcd\",") + "\"a\"]}}");
  texts.push_back("{\"data\":{\"labels\":[" + many("\"\x7F\x7F\x7F\",") + "\"a\"]}}");
  texts.push_back("{" + many(" \n") + "x");
  texts.push_back("[null" + many("\n") + "x");
  texts.push_back(many("1") + "e" + many("9"));
  return texts;
}

/// … and words, characters and tensors that differ.
std::vector<std::string> hostile_counts() {
  std::string characters, letters;
  for (char32_t c = 0x20; characters.size() < size; c = c == 0xD7FF ? 0xE000 : c + 1) {
    std::string one;
    append_utf8(one, c);
    letters += one;
    if (c != '"' && c != '\\') characters += (characters.empty() ? "\"" : ",\"") + one + "\"";
  }
  const std::string words = counted([](const std::string& i) { return ",\"" + i + "\""; });
  return {
      counted([](const std::string& i) { return i + " "; }),
      counted([](const std::string& i) { return i + "\ta\n"; }),
      letters,
      "{\"type\":\"quern-char\",\"version\":1,\"chars\":[" + characters + "]}",
      "{\"type\":\"quern-word\",\"version\":1,\"words\":[\"<unk>\",\"\\n\"" + words + "]}",
      "{\"x\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}" + counted([](const std::string& i) {
        return ",\"" + i + "\":{\"dtype\":\"U8\",\"shape\":[0,1,1,1,1,1,1,1],\"data_offsets\":[24,24]}";
      }) + "}",
      counted([](const std::string& i) {
        return "{\"event\":\"step\",\"step\":" + i +
               ",\"tokens\":1,\"loss\":0,\"lr\":0,\"grad_norm\":0,\"ms\":0,\"tokens_per_second\":0}\n";
      }),
      counted([](const std::string& i) {
        return "{\"event\":\"eval\",\"step\":1,\"split\":\"" + i + "\",\"loss\":0,\"tokens\":0}\n";
      }),
      "P2 700 700 9 " + many("1 "),
      "P5 8000 8000 255 ",
      "P3 4000 5000 255 1"};
}

}  // namespace

TEST_CASE("fuzz: large inputs that were made to hurt") {
  std::vector<std::string> texts = hostile_texts();
  for (std::string& text : hostile_counts()) texts.push_back(std::move(text));
  for (const std::string& text : texts)
    for (const FuzzTarget& target : test::fuzz_targets()) feed(target, text, text.substr(0, 40));
}

TEST_CASE("fuzz: a config with as many labels as can be takes no more memory than any reader") {
  for (const char* label : {"\"abcd\"", "\"\x7F\x7F\x7F\x7F\""}) {
    std::string text = "{\"data\":{\"labels\":[";
    for (int i = 0; i < 65536; ++i) text += (i > 0 ? "," : "") + std::string(label);
    std::vector<ConfigText> texts(1);
    texts[0] = {"config.json", text + "]}}"};
    test::watch_heap();
    const std::size_t found = merge_config(texts, std::nullopt, {}).data.labels.size();
    const std::uint64_t bytes = test::peak_bytes();
    CHECK(found == 65536);
    CHECK(bytes <= test::default_memory(texts[0].text));
  }
}
