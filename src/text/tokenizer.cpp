#include "quern/text/tokenizer.hpp"

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "quern/base/files.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/base/suggest.hpp"
#include "quern/text/fingerprint.hpp"
#include "quern/text/utf8.hpp"

namespace quern {
namespace {

constexpr const char* kByteType = "quern-byte";
constexpr const char* kCharType = "quern-char";
constexpr int kVersion = 1;

/// An Error about byte `at` of a text: a file's place is path:line:column, a prompt's name opens the
/// sentence.
Error fault(const Text& text, std::size_t at, const std::string& what, const std::string& hint) {
  if (text.source.kind != ErrorKind::file) return {text.source.kind, text.source.name + ": " + what, hint};
  return {text.source.kind, what, hint, place(text.source.name, position_of(text.bytes, at))};
}

Error not_utf8(const Text& text, std::size_t at) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X",
                static_cast<unsigned>(static_cast<unsigned char>(text.bytes[at])));
  return fault(
      text, at,
      std::string(byte) + " at byte " + std::to_string(at) + " is not UTF-8, which the char tokenizer reads",
      "convert the text to UTF-8, or train with data.tokenizer \"byte\", which takes any bytes");
}

/// f(code point, byte offset) for each character of a text that has to be UTF-8.
template <class F>
void for_each_character(const Text& text, F&& f) {
  for (std::size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = read_utf8(text.bytes.substr(at));
    if (c.status != Utf8Char::Status::ok) throw not_utf8(text, at);
    f(c.code_point, at);
    at += c.length;
  }
}

/// The one character that a string of "chars" holds.
char32_t single_character(const JsonDocument& document, const Json& item) {
  const std::string& text = document.string(item);
  const Utf8Char c = text.empty() ? Utf8Char{} : read_utf8(text);
  if (c.status != Utf8Char::Status::ok || c.length != text.size()) {
    document.fail(item, "expected a string of one character, found " + item.describe());
  }
  return c.code_point;
}

}  // namespace

void Tokenizer::add_token(std::string_view token) {
  bytes_.append(token);
  offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
}

Tokenizer Tokenizer::bytes() {
  Tokenizer t;
  for (int byte = 0; byte < 256; ++byte) t.add_token(std::string(1, static_cast<char>(byte)));
  return t;
}

Tokenizer Tokenizer::from_characters(std::span<const char32_t> sorted) {
  Tokenizer t;
  t.kind_ = Kind::character;
  t.id_of_.assign(std::size_t{sorted.back()} + 1, -1);
  for (const char32_t c : sorted) {
    std::string token;
    append_utf8(token, c);
    t.id_of_[c] = t.vocab_size();
    t.add_token(token);
  }
  return t;
}

Tokenizer Tokenizer::characters(std::span<const Text> texts) {
  std::vector<bool> seen(0x110000);
  for (const Text& text : texts) {
    for_each_character(text, [&](char32_t c, std::size_t) { seen[c] = true; });
  }
  std::vector<char32_t> sorted;
  for (char32_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) sorted.push_back(c);
  }
  if (sorted.empty())
    throw Error(ErrorKind::file, "no character to make a char tokenizer of: the text is empty");
  return from_characters(sorted);
}

template <class Id>
void Tokenizer::append(std::vector<Id>& ids, const Text& text) const {
  QUERN_CHECK(vocab_size() - 1 <= static_cast<std::int64_t>(std::numeric_limits<Id>::max()), vocab_size());
  ids.reserve(ids.size() + text.bytes.size());
  if (kind_ == Kind::byte) {
    for (const char c : text.bytes) ids.push_back(static_cast<unsigned char>(c));
    return;
  }
  for_each_character(text, [&](char32_t c, std::size_t at) {
    const std::int32_t id = c < id_of_.size() ? id_of_[c] : -1;
    if (id < 0) {
      throw fault(text, at,
                  "unknown character " + describe_character(c) + " at byte " + std::to_string(at) +
                      ": the char tokenizer knows the " + std::to_string(vocab_size()) +
                      " characters of the text that it was made from",
                  "leave the character out, or train with data.tokenizer \"byte\" or on a text that has it");
    }
    ids.push_back(static_cast<Id>(id));
  });
}

template void Tokenizer::append(std::vector<std::int32_t>&, const Text&) const;
template void Tokenizer::append(std::vector<std::uint16_t>&, const Text&) const;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const Source& source) const {
  std::vector<std::int32_t> ids;
  append(ids, Text{text, source});
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) text.append(token_bytes(id));
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  QUERN_CHECK(id >= 0 && id < vocab_size(), id, vocab_size());
  const auto i = static_cast<std::size_t>(id);
  return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

std::string Tokenizer::fingerprint() const { return fingerprint_of(to_json()); }

std::string Tokenizer::to_json() const {
  nlohmann::ordered_json json;
  json["type"] = kind_ == Kind::byte ? kByteType : kCharType;
  json["version"] = kVersion;
  if (kind_ == Kind::character) {
    auto& chars = json["chars"] = nlohmann::ordered_json::array();
    for (int id = 0; id < vocab_size(); ++id) chars.push_back(token_bytes(id));
  }
  return json.dump() + "\n";
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return from_json(read_file(path, max_file_bytes), path.string());
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  const JsonDocument document = parse_strict(json, name, ErrorKind::file);
  const Json& root = document.root;
  const Json& type = document.member(root, "type");
  const std::string& type_name = document.string(type);
  const bool is_char = type_name == kCharType;
  if (!is_char && type_name != kByteType) {
    document.fail(type, "unknown tokenizer type " + type.describe(),
                  "\"quern-byte\" and \"quern-char\" are known");
  }
  for (const Json::Member& member : document.object(root)) {
    const bool known = member.key == "type" || member.key == "version" || (is_char && member.key == "chars");
    if (!known)
      document.fail(member.value,
                    "unknown key " + in_quotes(member.key) + " in a " + type_name + " tokenizer");
  }
  document.integer(document.member(root, "version"), kVersion, kVersion);
  if (!is_char) return bytes();

  const Json& list = document.member(root, "chars");
  std::vector<char32_t> chars;
  for (const Json& item : document.list(list)) {
    const char32_t c = single_character(document, item);
    if (!chars.empty() && c <= chars.back()) {
      document.fail(item,
                    describe_character(c) + " is out of order after " + describe_character(chars.back()),
                    "\"chars\" lists each character once, in rising order of code points");
    }
    chars.push_back(c);
  }
  if (chars.empty()) document.fail(list, "\"chars\" is empty");
  return from_characters(chars);
}

}  // namespace quern
