// Text to token ids and back. Three kinds: `byte` (256 tokens, the identity, takes any bytes), `char` (one
// token for each distinct character of a text, in the order of their code points) and `word` (one token for
// each distinct word).
//
// A word is a run of bytes without space, tab and newline that ends at one of these or at the text's ends. A
// newline is a token too; spaces and tabs separate and are not kept. Token 0 of a word tokenizer, "<unk>", is
// what every word without a token of its own becomes; token 1 is the newline.
//
// tokenizer.json of these kinds, keys in any order, no others:
//   {"type": "quern-byte", "version": 1}
//   {"type": "quern-char", "version": 1, "chars": ["\n", " ", "!", …]}
//   {"type": "quern-word", "version": 1, "words": ["<unk>", "\n", "a", "and", …]}
// "chars" holds one character a string, in strictly rising order of code points; a character's place is its
// id. "words" holds the tokens of a word tokenizer in the order of their ids: the two above, then words, each
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/check.hpp"

namespace quern {

/// What a text is called in messages, and the kind of error that a fault in it is: ErrorKind::config for what
/// stands on the command line (a prompt), ErrorKind::file for what a file holds, whose path is then the name.
struct Source {
  std::string name = "the text";
  ErrorKind kind = ErrorKind::config;
};

/// Told, while a long text is read, how many more of its bytes were.
using BytesRead = std::function<void(std::int64_t)>;

/// A text and its source; `bytes` is a view. `read`, unless it is empty, is called about every mebibyte.
struct Text {
  std::string_view bytes;
  Source source;
  BytesRead read = {};
};

/// A fixed map between text and the ids 0 … vocab_size() - 1. Copies are cheap for byte and char
/// vocabularies.
class Tokenizer {
 public:
  enum class Kind { byte, character, word };

  /// The longest tokenizer file that is read: every code point of Unicode, escaped, fits.
  static constexpr std::uint64_t max_file_bytes = 16 << 20;

  /// The 256 bytes.
  static Tokenizer bytes();

  /// The distinct characters of all texts together. Throws Error(source.kind) for bytes that are not UTF-8,
  /// with their place, and ErrorKind::file when there is no character at all.
  static Tokenizer characters(std::span<const Text> texts);

  /// The distinct words of all texts together, in the order of their bytes. Throws Error(source.kind) for
  /// bytes that are not UTF-8 and a word above 4,096 bytes, with their place, and ErrorKind::file when there
  /// is no word at all or when there are so many that their tokenizer.json would pass max_file_bytes.
  static Tokenizer words(std::span<const Text> texts);

  /// These words, distinct and not "<unk>", in the order given: word i has the id i + 2.
  static Tokenizer vocabulary(std::span<const std::string> words);

  /// What to_json wrote. Throws Error(file), with `name` as its place, for anything else: not JSON, a key
  /// that is unknown, missing or given twice, another type or version, characters that are no characters,
  /// repeat or are not in order, words that are no words or repeat.
  static Tokenizer from_json(std::string_view json, const std::string& name);

  /// from_json of a file of at most 16 MiB. Throws Error(file) or Error(io).
  static Tokenizer load(const std::filesystem::path& path);

  /// tokenizer.json; the same bytes for equal tokenizers.
  std::string to_json() const;

  /// The ids of a text. Throws Error(source.kind) for a character without a token (char), or bytes that are
  /// not UTF-8 (char and word), naming the character, its place and the tokenizer.
  std::vector<std::int32_t> encode(std::string_view text, const Source& source = {}) const;

  /// encode, appended to `ids`; Id is std::int32_t, or std::uint16_t when vocab_size() <= 65,536.
  template <class Id>
  void append(std::vector<Id>& ids, const Text& text) const;

  /// The bytes of the tokens, joined; words with one space between them, none beside a newline.
  /// decode(encode(x)) == x for every x that encodes; for word, when x is so spaced and all its words known.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// What decode puts between two neighbours: " " between words, else nothing.
  std::string_view between(std::int32_t id, std::int32_t next) const;

  /// The bytes of one token, 0 <= id < vocab_size(). UTF-8 for char and word; byte tokens may be parts of a
  /// character (see Utf8Stream). Valid as long as the tokenizer.
  std::string_view token_bytes(std::int32_t id) const;

  int vocab_size() const { return static_cast<int>(offsets_.size()) - 1; }
  Kind kind() const { return kind_; }

  /// "byte", "char" or "word", as in data.tokenizer.
  std::string_view name() const;

  /// 16 hexadecimal digits; equal exactly for equal tokenizers (but for chance, 2^-64).
  std::string fingerprint() const;

 private:
  Tokenizer() = default;
  void add_token(std::string_view bytes);
  static Tokenizer from_characters(std::span<const char32_t> sorted);
  std::int32_t character_id(char32_t code_point) const;                  // -1: no token
  static Tokenizer from_words(std::span<const std::string_view> words);  // those behind the first two tokens
  std::int32_t word_id(std::string_view word) const;

  Kind kind_ = Kind::byte;
  std::string bytes_;                      // every token's bytes, joined
  std::vector<std::uint32_t> offsets_{0};  // token i is bytes_[offsets_[i], offsets_[i + 1])
  std::vector<std::int32_t> id_of_;        // char: by code point up to the largest below 65,536; -1: no token
  std::vector<std::int32_t> sorted_;       // word: the ids in the order of their bytes
};

extern template void Tokenizer::append(std::vector<std::int32_t>&, const Text&) const;
extern template void Tokenizer::append(std::vector<std::uint16_t>&, const Text&) const;

}  // namespace quern
