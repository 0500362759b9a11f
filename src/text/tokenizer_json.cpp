// tokenizer.json, written and read.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "quern/base/files.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/base/suggest.hpp"
#include "quern/text/fingerprint.hpp"
#include "quern/text/tokenizer.hpp"
#include "quern/text/utf8.hpp"
#include "tokenizer_words.hpp"

namespace quern {
namespace {

constexpr const char* kByteType = "quern-byte";
constexpr const char* kCharType = "quern-char";
constexpr const char* kWordType = "quern-word";
constexpr int kVersion = 1;

/// The one character that a string of "chars" holds.
char32_t single_character(const JsonDocument& document, const Json& item) {
  const std::string& text = document.string(item);
  const Utf8Char c = text.empty() ? Utf8Char{} : read_utf8(text);
  if (c.status != Utf8Char::Status::ok || c.length != text.size()) {
    document.fail(item, "expected a string of one character, found " + item.describe());
  }
  return c.code_point;
}

/// "chars", the code points of a char tokenizer.
std::vector<char32_t> read_characters(const JsonDocument& document, const Json& list) {
  std::vector<char32_t> chars;
  chars.reserve(document.list(list).size());
  for (const Json& item : document.list(list)) {
    const char32_t c = single_character(document, item);
    if (!chars.empty() && c <= chars.back()) {
      document.fail(item,
                    describe_character(c) + " is out of order after " + describe_character(chars.back()),
                    "\"chars\" lists each character once, in rising order of code points");
    }
    chars.push_back(c);
  }
  return chars;
}

void refuse_repeated(const JsonDocument& document, const Json::List& items, const std::string& hint) {
  std::vector<std::uint32_t> sorted(items.size());
  std::iota(sorted.begin(), sorted.end(), 0U);
  const auto token = [&](std::uint32_t id) -> const std::string& { return document.string(items[id]); };
  std::sort(sorted.begin(), sorted.end(),
            [&](std::uint32_t a, std::uint32_t b) { return std::tie(token(a), a) < std::tie(token(b), b); });
  const auto twice = std::adjacent_find(
      sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) { return token(a) == token(b); });
  if (twice != sorted.end())
    document.fail(items[twice[1]], items[twice[1]].describe() + " stands twice", hint);
}

/// "words" without the two tokens that are always there.
std::vector<std::string_view> read_words(const JsonDocument& document, const Json& list) {
  const Json::List& items = document.list(list);
  const std::string hint = R"("words" begins with "<unk>" and "\n"; then each word once)";
  for (std::size_t id = 0; id < items.size(); ++id) {
    const std::string& token = document.string(items[id]);
    const bool good = id == kUnknownId   ? token == kUnknownWord
                      : id == kNewlineId ? token == "\n"
                                         : is_word(token);
    if (!good) document.fail(items[id], "expected another token than " + items[id].describe(), hint);
  }
  if (items.size() < kFirstWordId) document.fail(list, "\"words\" has no newline", hint);
  std::vector<std::string_view> words;
  words.reserve(items.size());
  for (std::size_t id = kFirstWordId; id < items.size(); ++id) words.push_back(document.string(items[id]));
  refuse_repeated(document, items, hint);
  return words;
}

}  // namespace

std::string Tokenizer::fingerprint() const { return fingerprint_of(to_json()); }

std::string Tokenizer::to_json() const {
  std::string json =
      R"({"type":"quern-)" + std::string(name()) + R"(","version":)" + std::to_string(kVersion);
  if (kind_ != Kind::byte) {
    json += kind_ == Kind::word ? R"(,"words":[)" : R"(,"chars":[)";
    for (int id = 0; id < vocab_size(); ++id)
      json += (id > 0 ? "," : "") + nlohmann::json(token_bytes(id)).dump();
    json += "]";
  }
  return json + "}\n";
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return from_json(read_file(path, max_file_bytes), path.string());
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  const JsonDocument document = parse_strict(json, name, ErrorKind::file);
  const Json& root = document.root;
  const Json& type = document.member(root, "type");
  const std::string& type_name = document.string(type);
  if (type_name != kByteType && type_name != kCharType && type_name != kWordType) {
    document.fail(type, "unknown tokenizer type " + type.describe(),
                  "\"quern-byte\", \"quern-char\" and \"quern-word\" are known");
  }
  const std::string tokens = type_name == kCharType ? "chars" : type_name == kWordType ? "words" : "";
  for (const Json::Member& member : document.object(root)) {
    const bool known =
        member.key == "type" || member.key == "version" || (!tokens.empty() && member.key == tokens);
    if (!known)
      document.fail(member.value,
                    "unknown key " + in_quotes(member.key) + " in a " + type_name + " tokenizer");
  }
  document.integer(document.member(root, "version"), kVersion, kVersion);
  if (tokens.empty()) return bytes();
  const Json& list = document.member(root, tokens);
  if (document.list(list).empty()) document.fail(list, in_quotes(tokens) + " is empty");
  return type_name == kCharType ? from_characters(read_characters(document, list))
                                : from_words(read_words(document, list));
}

}  // namespace quern
