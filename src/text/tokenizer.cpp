#include "quern/text/tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "quern/base/strict_json.hpp"
#include "quern/base/suggest.hpp"
#include "quern/text/utf8.hpp"
#include "tokenizer_words.hpp"

namespace quern {
namespace {

constexpr char32_t kTableEnd = 0x10000;  // a file of twenty bytes may name the last code point

/// An Error about byte `at` of a text: a file's place is path:line:column, a prompt's name opens the
/// sentence.
Error fault(const Text& text, std::size_t at, const std::string& what, const std::string& hint) {
  if (text.source.kind != ErrorKind::file) return {text.source.kind, text.source.name + ": " + what, hint};
  return {text.source.kind, what, hint, place(text.source.name, position_of(text.bytes, at))};
}

Error not_utf8(const Text& text, std::size_t at, std::string_view tokenizer) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X",
                static_cast<unsigned>(static_cast<unsigned char>(text.bytes[at])));
  return fault(text, at,
               std::string(byte) + " at byte " + std::to_string(at) + " is not UTF-8, which the " +
                   std::string(tokenizer) + " tokenizer reads",
               "convert the text to UTF-8, or train with data.tokenizer \"byte\", which takes any bytes");
}

/// Tells who waits how far a text was read.
class Progress {
 public:
  explicit Progress(const Text& text) : text_(text) {}
  void reach(std::size_t at) {
    if (at < next_) return;
    if (text_.read) text_.read(static_cast<std::int64_t>(at - told_));
    told_ = at;
    next_ = at + (1 << 20);
  }

 private:
  const Text& text_;
  std::size_t told_ = 0, next_ = 1 << 20;
};

/// f(code point, byte offset) for each character of a text that has to be UTF-8.
template <class F>
void for_each_character(const Text& text, F&& f) {
  Progress progress(text);
  for (std::size_t at = 0; at < text.bytes.size();) {
    progress.reach(at);
    const Utf8Char c = read_utf8(text.bytes.substr(at));
    if (c.status != Utf8Char::Status::ok) throw not_utf8(text, at, "char");
    f(c.code_point, at);
    at += c.length;
  }
}

/// f(word) for each word of a text that has to be UTF-8; newlines come as words.
template <class F>
void for_each_word(const Text& text, F&& f) {
  if (const std::size_t bad = first_non_utf8(text.bytes); bad < text.bytes.size())
    throw not_utf8(text, bad, "word");
  Progress progress(text);
  for (std::size_t at = 0; at < text.bytes.size();) {
    progress.reach(at);
    if (kBetweenWords.find(text.bytes[at]) == kBetweenWords.npos) {
      const std::size_t end = std::min(text.bytes.find_first_of(kBetweenWords, at), text.bytes.size());
      f(text.bytes.substr(at, end - at));
      at = end;
    } else {
      if (text.bytes[at] == '\n') f(text.bytes.substr(at, 1));
      ++at;
    }
  }
}

Error too_long(const Text& text, std::string_view word) {
  return fault(text, static_cast<std::size_t>(word.data() - text.bytes.data()),
               "a word of " + std::to_string(word.size()) + " bytes, more than the " +
                   std::to_string(kMaxWordBytes) + " that a token may have",
               "train with data.tokenizer \"char\" or \"byte\"");
}

/// The words of all texts but "<unk>", each once, in the order of their bytes. What was gathered is made
/// distinct whenever it has doubled, so that it stays small beside the text.
std::vector<std::string_view> distinct_words(std::span<const Text> texts) {
  std::vector<std::string_view> words;
  std::size_t limit = 4096;
  const auto make_distinct = [&words] {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
  };
  for (const Text& text : texts) {
    for_each_word(text, [&](std::string_view word) {
      if (word == "\n" || word == kUnknownWord) return;
      if (!is_word(word)) throw too_long(text, word);
      words.push_back(word);
      if (words.size() < limit) return;
      make_distinct();
      limit = std::max(limit, 2 * words.size());
    });
  }
  make_distinct();
  return words;
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
  t.offsets_.reserve(sorted.size() + 1);
  for (const char32_t c : sorted) {
    std::string token;
    append_utf8(token, c);
    if (c < kTableEnd) {
      t.id_of_.resize(std::size_t{c} + 1, -1);
      t.id_of_[c] = t.vocab_size();
    }
    t.add_token(token);
  }
  return t;
}

std::int32_t Tokenizer::character_id(char32_t code_point) const {
  if (code_point < kTableEnd) return code_point < id_of_.size() ? id_of_[code_point] : -1;
  std::string wanted;
  append_utf8(wanted, code_point);
  std::int32_t low = 0, high = vocab_size();
  while (low < high) {  // UTF-8 sorts as code points do
    const std::int32_t middle = (low + high) / 2;
    if (token_bytes(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < vocab_size() && token_bytes(low) == wanted ? low : -1;
}

Tokenizer Tokenizer::characters(std::span<const Text> texts) {
  CodePointSet seen;
  for (const Text& text : texts) {
    for_each_character(text, [&](char32_t c, std::size_t) { seen.insert(c); });
  }
  const std::vector<char32_t> sorted = seen.sorted();
  if (sorted.empty())
    throw Error(ErrorKind::file, "no character to make a char tokenizer of: the text is empty");
  return from_characters(sorted);
}

Tokenizer Tokenizer::from_words(std::span<const std::string_view> words) {
  Tokenizer t;
  t.kind_ = Kind::word;
  t.offsets_.reserve(words.size() + 3);
  t.sorted_.reserve(words.size() + 2);
  t.add_token(kUnknownWord);
  t.add_token("\n");
  for (const std::string_view word : words) t.add_token(word);
  for (std::int32_t id = 0; id < t.vocab_size(); ++id) t.sorted_.push_back(id);
  std::sort(t.sorted_.begin(), t.sorted_.end(),
            [&t](std::int32_t a, std::int32_t b) { return t.token_bytes(a) < t.token_bytes(b); });
  return t;
}

Tokenizer Tokenizer::words(std::span<const Text> texts) {
  const std::vector<std::string_view> distinct = distinct_words(texts);
  if (distinct.empty())
    throw Error(ErrorKind::file, "no word to make a word tokenizer of: the text is empty");
  std::uint64_t bytes = 0;
  for (const std::string_view word : distinct) bytes += word.size();
  const auto fits = [](std::uint64_t size) { return size <= max_file_bytes; };
  const auto too_many = [&] {
    return Error(ErrorKind::file,
                 "the text has " + std::to_string(distinct.size()) +
                     " different words, more than a tokenizer file of 16 MiB holds",
                 "train with data.tokenizer \"char\" or \"byte\"");
  };
  if (!fits(bytes)) throw too_many();
  Tokenizer t = from_words(distinct);
  if (!fits(t.to_json().size())) throw too_many();
  return t;
}

Tokenizer Tokenizer::vocabulary(std::span<const std::string> words) {
  Tokenizer t = from_words(std::vector<std::string_view>(words.begin(), words.end()));
  for (const std::string& word : words) QUERN_CHECK(is_word(word), word);
  for (std::size_t i = 1; i < t.sorted_.size(); ++i)
    QUERN_CHECK(t.token_bytes(t.sorted_[i - 1]) != t.token_bytes(t.sorted_[i]), t.token_bytes(t.sorted_[i]));
  return t;
}

std::int32_t Tokenizer::word_id(std::string_view word) const {
  const auto at =
      std::lower_bound(sorted_.begin(), sorted_.end(), word,
                       [this](std::int32_t id, std::string_view wanted) { return token_bytes(id) < wanted; });
  return at != sorted_.end() && token_bytes(*at) == word ? *at : kUnknownId;
}

template <class Id>
void Tokenizer::append(std::vector<Id>& ids, const Text& text) const {
  QUERN_CHECK(vocab_size() - 1 <= static_cast<std::int64_t>(std::numeric_limits<Id>::max()), vocab_size());
  ids.reserve(ids.size() + text.bytes.size());
  if (kind_ == Kind::byte) {
    for (const char c : text.bytes) ids.push_back(static_cast<unsigned char>(c));
    return;
  }
  if (kind_ == Kind::word) {
    for_each_word(text, [&](std::string_view word) { ids.push_back(static_cast<Id>(word_id(word))); });
    return;
  }
  for_each_character(text, [&](char32_t c, std::size_t at) {
    const std::int32_t id = character_id(c);
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
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) text.append(between(ids[i - 1], ids[i]));
    text.append(token_bytes(ids[i]));
  }
  return text;
}

std::string_view Tokenizer::between(std::int32_t id, std::int32_t next) const {
  return kind_ == Kind::word && id != kNewlineId && next != kNewlineId ? " " : "";
}

std::string_view Tokenizer::name() const {
  if (kind_ == Kind::word) return "word";
  return kind_ == Kind::byte ? "byte" : "char";
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  QUERN_CHECK(id >= 0 && id < vocab_size(), id, vocab_size());
  const auto i = static_cast<std::size_t>(id);
  return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

}  // namespace quern
