#include "quern/base/strict_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_bounds.hpp"
#include "quern/base/suggest.hpp"

namespace quern {

namespace {

/// Finds each token's place in the text, in step with the parser's events: nlohmann's SAX interface has no
/// positions. It only ever walks over text that the parser's lexer has accepted.
class Locator {
 public:
  Locator(std::string_view text, std::int64_t first_line) : text_(text), line_(first_line) {}

  /// The start of the next token that is no separator.
  TextPosition next() {
    skip_to_token();
    return here();
  }
  std::string_view rest() const { return text_.substr(offset_); }

  /// Steps over the token at the current place.
  void skip_string() {
    advance(1);
    while (text_[offset_] != '"') advance(text_[offset_] == '\\' ? 2 : 1);
    advance(1);
  }
  void skip_scalar() {
    while (offset_ < text_.size() &&
           std::string_view(" \t\r\n,:]}/").find(text_[offset_]) == std::string_view::npos)
      advance(1);
  }
  void skip_bracket() { advance(1); }

  /// The place of any byte at or after the current one.
  TextPosition at(std::size_t offset) {
    if (offset > offset_) advance(std::min(offset, text_.size()) - offset_);
    return here();
  }

 private:
  TextPosition here() const { return {line_, static_cast<std::int64_t>(offset_ - line_start_) + 1}; }

  void advance(std::size_t bytes) {
    for (; bytes > 0 && offset_ < text_.size(); --bytes) {
      if (text_[offset_++] == '\n') {
        ++line_;
        line_start_ = offset_;
      }
    }
  }

  void skip_to_token() {
    while (offset_ < text_.size()) {
      const std::string_view ahead = rest();
      if (std::string_view(" \t\r\n,:").find(ahead[0]) != std::string_view::npos) {
        advance(1);
      } else if (ahead.starts_with("//")) {
        advance(std::min(ahead.find('\n'), ahead.size()));
      } else if (ahead.starts_with("/*") && ahead.find("*/", 2) != std::string_view::npos) {
        advance(ahead.find("*/", 2) + 2);
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t offset_ = 0;
  std::size_t line_start_ = 0;
  std::int64_t line_;
};

/// Builds the tree from nlohmann's events; throws Error at the first mistake.
class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, std::string_view name, ErrorKind kind, DuplicateKeys duplicates,
          std::int64_t first_line, std::vector<std::uint32_t> members)
      : text_(text),
        name_(name),
        kind_(kind),
        duplicates_(duplicates),
        locator_(text, first_line),
        members_(std::move(members)) {}

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(number_integer_t value) { return scalar(static_cast<std::int64_t>(value)); }
  bool number_unsigned(number_unsigned_t value) { return scalar(static_cast<std::uint64_t>(value)); }
  bool number_float(number_float_t value, const string_t&) { return scalar(value); }
  bool string(string_t& value) {
    put(std::move(value), locator_.next());
    locator_.skip_string();
    return true;
  }
  bool binary(binary_t&) { throw Bug("binary value in a JSON text"); }

  bool start_object(std::size_t) { return open(Json::Object{}); }
  bool start_array(std::size_t) { return open(Json::List{}); }
  bool key(string_t& key) {
    const TextPosition at = locator_.next();
    count(at);
    locator_.skip_string();
    std::get<Json::Object>(open_.back()->value).push_back({std::move(key), at, {}});
    return true;
  }
  bool end_object() {
    if (duplicates_ == DuplicateKeys::refuse) refuse_duplicates(std::get<Json::Object>(open_.back()->value));
    return close();
  }
  bool end_array() { return close(); }

  bool parse_error(std::size_t bytes_read, const std::string&, const nlohmann::detail::exception& error);

  Json root;

 private:
  template <class T>
  bool scalar(T value) {
    put(value, locator_.next());
    locator_.skip_scalar();
    return true;
  }

  template <class T>
  bool open(T container) {
    const TextPosition at = locator_.next();
    if (open_.size() == max_depth)
      fail("nested deeper than " + std::to_string(max_depth) + " levels", "", at);
    if (opened_ < members_.size()) container.reserve(members_[opened_++]);
    open_.push_back(put(std::move(container), at));
    locator_.skip_bracket();
    return true;
  }

  bool close() {
    locator_.next();
    locator_.skip_bracket();
    open_.pop_back();
    return true;
  }

  // Pointers into open_ stay valid: only the innermost container grows.
  Json* put(Json::Value value, TextPosition at) {
    count(at);
    Json* target = &root;
    if (!open_.empty()) {
      if (auto* list = std::get_if<Json::List>(&open_.back()->value)) {
        target = &list->emplace_back();
      } else {
        target = &std::get<Json::Object>(open_.back()->value).back().value;
      }
    }
    target->value = std::move(value);
    target->at = at;
    return target;
  }

  /// One more value or key, which stands there.
  void count(TextPosition at) {
    if (++seen_ > max_values(text_.size()))
      fail("more than " + std::to_string(max_values(text_.size())) +
               " values and keys, too many for a text of " + std::to_string(text_.size()) + " bytes",
           "", at);
  }

  void refuse_duplicates(const Json::Object& object) const {
    std::vector<const Json::Member*> sorted;
    for (const Json::Member& member : object) sorted.push_back(&member);
    std::stable_sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->key < b->key; });
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i]->key == sorted[i - 1]->key)
        fail("the key " + in_quotes(sorted[i]->key) + " stands twice",
             "the first is at " + place(name_, sorted[i - 1]->key_at), sorted[i]->key_at);
  }

  [[noreturn]] void fail(const std::string& what, const std::string& hint, TextPosition at) const {
    throw Error(kind_, what, hint, place(name_, at));
  }

  std::string_view text_;
  std::string_view name_;
  ErrorKind kind_;
  DuplicateKeys duplicates_;
  Locator locator_;
  std::vector<Json*> open_;
  std::vector<std::uint32_t> members_;  // of each list and object, as they open
  std::size_t opened_ = 0, seen_ = 0;
};

/// The part of nlohmann's message that says what is wrong: "unexpected '}', expected a string".
std::string reason(const std::string& message) {
  std::size_t begin = message.find(" - ");
  begin = begin == std::string::npos ? 0 : begin + 3;
  std::string text = message.substr(begin, message.find("; last read", begin) - begin);
  const std::size_t expected = message.rfind("; expected ");
  if (expected != std::string::npos && text.find("; expected ") == std::string::npos)
    text += message.substr(expected);
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"; expected", ", expected"},
      {"unexpected string literal", "unexpected string"},
      {"unexpected number literal", "unexpected number"},
      {"expected string literal", "expected a string"},
      {"expected '[', '{', or a literal", "expected a value"},
      {", expected ']'", ", expected ',' or ']'"},
      {", expected '}'", ", expected ',' or '}'"},
      {" end of input", " end of the text"},
      {" end of input", " end of the text"}};
  for (const auto& [from, to] : words)
    if (const std::size_t at = text.rfind(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// What to do about a token that is no JSON.
std::string token_hint(std::string_view token) {
  const auto starts = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](auto word) { return token.starts_with(word); });
  };
  if (starts({"NaN", "nan", "Inf", "inf", "-Inf", "-inf", "-NaN", "-nan"})) return "a number must be finite";
  if (starts({"True", "False", "None", "TRUE", "FALSE", "NULL"})) return "JSON writes true, false and null";
  if (starts({"'"})) return "a string stands in double quotes";
  if (starts({".", "+", "-."})) return "a number begins with a digit: 0.5, 1e-3";
  if (starts({"#"})) return "a comment begins with //";
  return "";
}

bool Builder::parse_error(std::size_t bytes_read, const std::string&,
                          const nlohmann::detail::exception& error) {
  const std::string message = reason(error.what());
  if (error.id == 406) {  // nlohmann: number overflow
    const TextPosition at = locator_.next();
    const std::string_view ahead = locator_.rest();
    locator_.skip_scalar();
    fail("the number " + printable(ahead.substr(0, ahead.size() - locator_.rest().size())) + " is too large",
         "", at);
  }
  if (message.starts_with("unexpected end of the text")) {
    std::string hint;
    if (!open_.empty()) {
      const char bracket = open_.back()->is<Json::List>() ? '[' : '{';
      hint = std::string("the ") + bracket + " of " + place(name_, open_.back()->at) + " is not closed";
    }
    fail("invalid JSON: " + message, hint, locator_.at(text_.size()));
  }
  if (message.starts_with("unexpected '")) {  // a bracket or separator: the byte read last
    const std::string_view before = text_.substr(0, bytes_read - 1);
    const std::size_t last = before.find_last_not_of(" \t\r\n");
    const bool trailing = last != std::string_view::npos && before[last] == ',' &&
                          (text_[bytes_read - 1] == '}' || text_[bytes_read - 1] == ']');
    fail("invalid JSON: " + message, trailing ? "JSON has no comma after the last entry" : "",
         locator_.at(bytes_read - 1));
  }
  const TextPosition at = locator_.next();
  std::string hint = token_hint(locator_.rest());
  if (hint.empty() && message.find("invalid literal, expected a string") != std::string::npos)
    hint = "a key stands in double quotes";
  fail("invalid JSON: " + message, hint, at);
}

}  // namespace

JsonDocument parse_strict(std::string_view text, std::string_view name, ErrorKind kind,
                          DuplicateKeys duplicates, std::int64_t first_line) {
  const auto refuse = [&](std::size_t offset, const std::string& what, const std::string& hint) {
    throw Error(kind, what, hint, place(name, Locator(text, first_line).at(offset)));
  };
  if (text.starts_with("\xEF\xBB\xBF"))
    refuse(0, "begins with a byte order mark", "save it as UTF-8 without BOM");
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    refuse(0, "is UTF-16", "save it as UTF-8");
  // nlohmann takes a NUL for the end of the text.
  if (const std::size_t nul = text.find('\0'); nul != text.npos) refuse(nul, "holds a NUL byte", "");
  if (const std::size_t bad = first_non_utf8(text); bad < text.size()) refuse(bad, "is not UTF-8 here", "");

  const std::string plain = with_plain_spaces(text, JsonComments::blank);
  const auto parse = [&plain](auto& events) {
    nlohmann::json::sax_parse(plain.begin(), plain.end(), &events, nlohmann::json::input_format_t::json,
                              /*strict=*/true, /*ignore_comments=*/true);
  };
  MemberCounter counter(max_values(text.size()));
  parse(counter);
  Builder builder(text, name, kind, duplicates, first_line, std::move(counter.members));
  parse(builder);
  return {std::move(builder.root), std::string(name), kind};
}

}  // namespace quern
