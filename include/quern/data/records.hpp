// What users bring beside plain text: labelled texts, tagged words, texts with a value, pairs of texts.
//
//             a line of JSON (.jsonl)                       a line of columns (.tsv), tab between them
//   label     {"text": "…", "label": "…"}                   text, label
//   tags      {"tokens": ["…", …], "tags": ["…", …]}        tokens, tags; words with spaces between them
//   value     {"text": "…", "value": 3.5}                   text, value
//   pair      {"source": "…", "target": "…"}                source, target; also two files, line by line
//
// Lines end with \n or \r\n, the last one may lack it. A record with an empty side (spaces are nothing) and a
// blank line are skipped and counted.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quern/base/fields.hpp"
#include "quern/data/corpus.hpp"

namespace quern {

enum class RecordKind { label, tags, value, pair };

constexpr auto enum_names(RecordKind) {
  return std::to_array<EnumName<RecordKind>>({{RecordKind::label, "label"},
                                              {RecordKind::tags, "tags"},
                                              {RecordKind::value, "value"},
                                              {RecordKind::pair, "pair"}});
}

/// One example; which members hold something depends on its kind.
struct Record {
  std::string text;                 // label, value; the source of a pair
  std::string label;                // label
  std::vector<std::string> tokens;  // tags: words without space, tab and newline, at least one
  std::vector<std::string> tags;    // tags: one for each token, without them too
  double value = 0;                 // value: finite, as a float too
  std::string target;               // pair
  std::string place;                // "reviews.jsonl:17", for messages about this record
};

/// The records of a file, or of two whose lines are pairs: at least one. What is kept is the text, since a
/// line may be far shorter than a record; each pass over the records parses it.
class RecordSet {
 public:
  using Visit = std::function<void(const Record&)>;

  /// Calls visit for each record, in the file's order.
  void each(const Visit& visit) const;
  std::int64_t size() const { return size_; }
  std::int64_t skipped() const { return skipped_; }  // blank lines and records with an empty side

 private:
  friend RecordSet read_records(const std::string& path, RecordKind kind, std::uint64_t memory);
  friend RecordSet read_parallel(const std::string& source, const std::string& target, std::uint64_t memory);
  RecordSet(std::vector<TextFile> files, RecordKind kind, bool json);
  /// Returns the number of lines that are no record.
  std::int64_t scan_lines(const Visit& visit) const;
  std::int64_t scan_pairs(const Visit& visit) const;
  std::int64_t scan(const Visit& visit) const {
    return files_.size() == 1 ? scan_lines(visit) : scan_pairs(visit);
  }

  std::vector<TextFile> files_;  // one, or the sources and the targets
  RecordKind kind_;
  bool json_;
  std::int64_t size_ = 0, skipped_ = 0;
};

/// Reads a file of JSON lines (.jsonl, .json) or columns (.tsv, .txt). Throws Error(file) for what
/// read_texts refuses and, with file:line or file:line:column, for bytes that are not UTF-8, a line that is
/// no JSON object, a key that is missing, unknown or of another type, a number of columns other than two, a
/// token or tag that is not one word, tokens and tags of unequal count, a number that is none, not finite or
/// beyond a float, and a file without a record; Error(config) for another ending of the name; Error(io) as
/// read_texts.
RecordSet read_records(const std::string& path, RecordKind kind, std::uint64_t memory = physical_memory());

/// Reads two files whose lines are pairs. Blank lines at the end of the longer one are skipped. Throws as
/// read_records, and Error(file) for unequal numbers of lines: both counts, and the first line without a
/// partner.
RecordSet read_parallel(const std::string& source, const std::string& target,
                        std::uint64_t memory = physical_memory());

}  // namespace quern
