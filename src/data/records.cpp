#include "quern/data/records.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "quern/base/strict_json.hpp"
#include "quern/base/suggest.hpp"
#include "quern/text/utf8.hpp"

namespace quern {
namespace {

/// Where a record's two sides stand in JSON and what they are called.
std::pair<std::string, std::string> keys_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::label: return {"text", "label"};
    case RecordKind::tags: return {"tokens", "tags"};
    case RecordKind::value: return {"text", "value"};
    case RecordKind::pair: return {"source", "target"};
  }
  throw Bug("unknown kind of record");
}

std::string line_place(const std::string& name, std::int64_t line) {
  return name + ":" + std::to_string(line);
}

[[noreturn]] void fail(const std::string& name, std::int64_t line, const std::string& what,
                       const std::string& hint = {}) {
  throw Error(ErrorKind::file, what, hint, line_place(name, line));
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == text.npos; }

/// The lines of a text, one after the other, without their ends.
class Lines {
 public:
  explicit Lines(const TextFile& file) : rest_(file.bytes) {}

  /// The next line; false behind the last one.
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }

  std::int64_t count() const {
    return std::count(rest_.begin(), rest_.end(), '\n') + (rest_.empty() || rest_.back() == '\n' ? 0 : 1);
  }

 private:
  std::string_view rest_;
};

void check_text(const TextFile& file) {
  const std::string_view bytes = file.bytes;
  if (const std::size_t bad = first_non_utf8(bytes); bad < bytes.size()) {
    throw Error(ErrorKind::file, "is not UTF-8 here", "save it as UTF-8",
                place(file.name, position_of(bytes, bad)));
  }
  if (bytes.starts_with("\xEF\xBB\xBF"))
    fail(file.name, 1, "begins with a byte order mark", "save it as UTF-8 without BOM");
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(' '); at != text.npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(' ', end);
  }
  return words;
}

/// Throws unless there is a tag for each token.
void check_tags(const Record& record, const std::string& name, std::int64_t line) {
  const auto counted = [](std::size_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  if (record.tokens.size() == record.tags.size()) return;
  fail(name, line, counted(record.tokens.size(), "token") + " and " + counted(record.tags.size(), "tag"),
       "each token has one tag, in the same order");
}

/// A label becomes part of the run's config, whose texts end before a NUL.
void check_labels_text(const Record& record, const std::string& name, std::int64_t line) {
  const auto check = [&](const std::string& label) {
    if (label.find('\0') != label.npos)
      fail(name, line, "the label " + in_quotes(label) + " holds a NUL character", "a config cannot hold it");
  };
  check(record.label);
  for (const std::string& tag : record.tags) check(tag);
}

/// Training computes in float.
bool is_float(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

constexpr const char* kFloatRange = "expected a number from -3.4e38 to 3.4e38, found ";
constexpr const char* kFloatHint = "values are 32-bit floats: divide all of them by the same number";

/// A number that takes the whole of the text, and that a float holds.
double number_of(std::string_view text, const std::string& name, std::int64_t line) {
  const std::size_t begin = text.find_first_not_of(' ');
  const std::string_view digits = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(value))
    fail(name, line, "expected a number, found " + in_quotes(text), "such as 3, -0.5 or 1e-3");
  if (!is_float(value)) fail(name, line, kFloatRange + in_quotes(digits), kFloatHint);
  return value;
}

/// Throws for a key that is none of the two.
void check_keys(const JsonDocument& document, const std::string& first, const std::string& second) {
  for (const Json::Member& member : document.object(document.root)) {
    if (member.key == first || member.key == second) continue;
    const std::string near = did_you_mean(member.key, {first, second});
    throw Error(
        ErrorKind::file, "unknown key " + in_quotes(member.key),
        near.empty() ? "a record has " + in_quotes(first) + " and " + in_quotes(second) + " alone" : near,
        place(document.name, member.key_at));
  }
}

/// A list of words; a word has no space, which a word tokenizer would take for its end.
std::vector<std::string> word_list(const JsonDocument& document, const Json& list) {
  std::vector<std::string> words;
  for (const Json& item : document.list(list)) {
    const std::string& word = document.string(item);
    if (word.empty() || word.find_first_of(" \t\r\n") != word.npos)
      document.fail(item, "expected one word, found " + item.describe(),
                    "a token or tag has no space, tab or line end and is not empty");
    words.push_back(word);
  }
  return words;
}

/// Reads a line of JSON; false where a side is empty.
bool read_json(std::string_view line, const std::string& name, std::int64_t number, RecordKind kind,
               Record& record) {
  const JsonDocument document = parse_strict(line, name, ErrorKind::file, DuplicateKeys::refuse, number);
  const auto [first_key, second_key] = keys_of(kind);
  check_keys(document, first_key, second_key);
  const Json& first = document.member(document.root, first_key);
  const Json& second = document.member(document.root, second_key);
  if (kind == RecordKind::tags) {
    record.tokens = word_list(document, first);
    record.tags = word_list(document, second);
    if (record.tokens.empty() || record.tags.empty()) return false;
    check_tags(record, name, number);
    return true;
  }
  record.text = document.string(first);
  if (kind == RecordKind::value) {
    record.value = document.number(second);
    if (!is_float(record.value)) document.fail(second, kFloatRange + second.describe(), kFloatHint);
    return !is_blank(record.text);
  }
  std::string& other = kind == RecordKind::label ? record.label : record.target;
  other = document.string(second);
  return !is_blank(record.text) && !is_blank(other);
}

/// Reads two columns; false where a side is empty.
bool read_columns(std::string_view first, std::string_view second, const std::string& name,
                  std::int64_t number, RecordKind kind, Record& record) {
  if (is_blank(first) || is_blank(second)) return false;
  switch (kind) {
    case RecordKind::label: record.label = second; break;
    case RecordKind::value: record.value = number_of(second, name, number); break;
    case RecordKind::pair: record.target = second; break;
    case RecordKind::tags:
      record.tokens = words_of(first);
      record.tags = words_of(second);
      check_tags(record, name, number);
      return true;
  }
  record.text = first;
  return true;
}

bool read_tsv(std::string_view line, const std::string& name, std::int64_t number, RecordKind kind,
              Record& record) {
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  if (tabs != 1) {
    const auto [first, second] = keys_of(kind);
    fail(name, number,
         "expected two columns with a tab between them, found " +
             (tabs == 0 ? "one column" : std::to_string(tabs + 1) + " columns"),
         "the columns are " + first + " and " + second);
  }
  const std::size_t tab = line.find('\t');
  return read_columns(line.substr(0, tab), line.substr(tab + 1), name, number, kind, record);
}

}  // namespace

RecordSet::RecordSet(std::vector<TextFile> files, RecordKind kind, bool json)
    : files_(std::move(files)), kind_(kind), json_(json) {
  for (const TextFile& file : files_) check_text(file);
  skipped_ = scan([this](const Record&) { ++size_; });
  if (size_ > 0) return;
  throw Error(ErrorKind::file,
              "no record: all of the " + std::to_string(skipped_) + " lines are blank or have an empty side",
              "there is nothing to learn from", files_.front().name);
}

void RecordSet::each(const Visit& visit) const { scan(visit); }

std::int64_t RecordSet::scan_lines(const Visit& visit) const {
  const std::string& name = files_.front().name;
  std::int64_t number = 0, skipped = 0;
  Lines lines(files_.front());
  for (std::string_view line; lines.next(line);) {
    Record record;
    record.place = line_place(name, ++number);
    const bool whole = !is_blank(line) && (json_ ? read_json(line, name, number, kind_, record)
                                                 : read_tsv(line, name, number, kind_, record));
    if (!whole) {
      ++skipped;
      continue;
    }
    check_labels_text(record, name, number);
    visit(record);
  }
  return skipped;
}

std::int64_t RecordSet::scan_pairs(const Visit& visit) const {
  const std::string &source = files_[0].name, &target = files_[1].name;
  Lines sources(files_[0]), targets(files_[1]);
  std::int64_t number = 0, skipped = 0;
  for (std::string_view left, right;;) {
    const bool has_left = sources.next(left), has_right = targets.next(right);
    if (!has_left && !has_right) return skipped;
    ++number;
    if (has_left != has_right) {
      if (!is_blank(has_left ? left : right))
        fail(has_left ? source : target, number,
             "a line without a partner: " + printable(source) + " has " +
                 std::to_string(Lines(files_[0]).count()) + " lines, " + printable(target) + " has " +
                 std::to_string(Lines(files_[1]).count()) + " lines",
             "line by line, the two files hold a text and its translation");
      ++skipped;
      continue;
    }
    Record record;
    record.place = line_place(source, number);
    if (read_columns(left, right, source, number, RecordKind::pair, record)) {
      visit(record);
    } else {
      ++skipped;
    }
  }
}

RecordSet read_records(const std::string& path, RecordKind kind, std::uint64_t memory) {
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool json = ending == ".jsonl" || ending == ".json";
  if (!json && ending != ".tsv" && ending != ".txt") {
    throw Error(ErrorKind::config,
                "records are read from .jsonl, .json, .tsv and .txt, not from " +
                    (ending.empty() ? "a name without an ending" : in_quotes(ending)),
                "name the file after what it holds: lines of JSON, or columns with tabs between them", path);
  }
  return RecordSet(read_texts({path}, memory), kind, json);
}

RecordSet read_parallel(const std::string& source, const std::string& target, std::uint64_t memory) {
  return RecordSet(read_texts({source, target}, memory), RecordKind::pair, false);
}

}  // namespace quern
