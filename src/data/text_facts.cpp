#include "quern/data/text_facts.hpp"

#include <algorithm>
#include <string_view>

#include "quern/base/check.hpp"
#include "quern/data/corpus.hpp"
#include "quern/text/fingerprint.hpp"
#include "quern/text/utf8.hpp"

namespace quern {
namespace {

/// Counts the characters of a text that comes in pieces, up to the first byte that is none.
class CharacterCount {
 public:
  void add(std::string_view piece, bool last) {
    if (invalid_) return;
    pending_.append(piece);
    std::string_view rest = pending_;
    while (!rest.empty() && !invalid_) {
      const Utf8Char c = read_utf8(rest);
      if (c.status == Utf8Char::Status::truncated && !last) break;
      if (c.status != Utf8Char::Status::ok) {
        invalid_ = {offset_,
                    {line_, static_cast<std::int64_t>(offset_ - line_start_) + 1},
                    static_cast<std::uint8_t>(rest.front())};
        break;
      }
      take(c);
      rest.remove_prefix(c.length);
    }
    pending_.erase(0, pending_.size() - rest.size());
  }

  void tell(TextFacts& facts) const {
    facts.invalid = invalid_;
    if (invalid_) return;
    facts.characters = characters_;
    facts.distinct = seen_.size();
  }

 private:
  void take(const Utf8Char& c) {
    ++characters_;
    seen_.insert(c.code_point);
    offset_ += c.length;
    if (c.code_point != '\n') return;
    ++line_;
    line_start_ = offset_;
  }

  std::string pending_;  // the beginning of a character that the next piece ends
  CodePointSet seen_;
  std::uint64_t characters_ = 0, offset_ = 0, line_start_ = 0;
  std::int64_t line_ = 1;
  std::optional<TextFacts::Invalid> invalid_;
};

}  // namespace

TextFacts describe_text(Files& files, const std::filesystem::path& path, std::size_t piece) {
  QUERN_CHECK(piece > 0);
  const File file = files.open_read(path);
  TextFacts facts;
  facts.bytes = file.size();
  CharacterCount characters;
  std::uint64_t hash = site_hash({});
  std::string bytes;
  for (std::uint64_t at = 0; at < facts.bytes; at += bytes.size()) {
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece, facts.bytes - at)));
    file.read_at(at, bytes.data(), bytes.size());
    hash = site_hash(bytes, hash);
    facts.lines += static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
    characters.add(bytes, at + bytes.size() == facts.bytes);
  }
  if (!bytes.empty() && bytes.back() != '\n') ++facts.lines;
  characters.tell(facts);
  facts.fingerprint = fingerprint_of(fingerprint_part(facts.bytes, hash));
  return facts;
}

}  // namespace quern
