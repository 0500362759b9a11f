// A strict JSON reader: nlohmann/json's parser with exact positions and without its kindnesses. Comments (//
// and
// /* */) are allowed. Refused: syntax errors, text after the value, duplicate keys, NaN and Infinity, numbers
// beyond a double, a byte order mark, NUL bytes, broken UTF-8, nesting deeper than 64, and more values and
// keys than 4,096 and one for each six bytes: reading a text of n bytes takes at most 16 n bytes and a
// mebibyte.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quern/base/check.hpp"

namespace quern {

/// Both count from 1; a column is a byte of its line, as in GCC's messages. Line 0: no position.
struct TextPosition {
  std::int64_t line = 0;
  std::int64_t column = 0;
  auto operator<=>(const TextPosition&) const = default;
};

/// "name:line:column", or "name" when there is no position.
std::string place(std::string_view name, TextPosition at);

/// A JSON value that knows where it stands. Integers from 0 up to 2^64-1 are std::uint64_t, negative ones
/// down to -2^63 std::int64_t, all other numbers double.
struct Json {
  struct Member;
  using List = std::vector<Json>;
  /// Members in the order of the text. A type of its own: of strings and vectors alone libstdc++ takes a
  /// variant for one that always holds a value, and destroys garbage when memory runs out while it is copied.
  struct Object : std::vector<Member> {
    using std::vector<Member>::vector;
  };
  using Value =
      std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, List, Object>;

  Value value;      // null at first
  TextPosition at;  // the value's first character

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value);
  }
  bool is_number() const { return is<std::int64_t>() || is<std::uint64_t>() || is<double>(); }

  /// The member's value, nullptr when there is none or this is no object.
  const Json* find(std::string_view key) const;

  /// What it is, for messages: "null", "true", "3.7", "\"abc\"", "a list", "an object".
  std::string describe() const;
};

struct Json::Member {
  std::string key;
  TextPosition key_at;
  Json value;
};

/// The value as an integer when it is one: 12, -3, also 1e3 and 2.0 (exact and below 2^53). False otherwise.
bool as_integer(const Json& json, std::int64_t& out);
bool as_integer(const Json& json, std::uint64_t& out);

/// A parsed text with its name and error kind, and typed access whose errors name the place.
class JsonDocument {
 public:
  Json root;
  std::string name;
  ErrorKind kind = ErrorKind::file;

  /// The member; throws when it is missing or `object` is none.
  const Json& member(const Json& object, std::string_view key) const;

  // Each throws `kind` with the place when the value is of another type or out of range.
  std::int64_t integer(const Json& json, std::int64_t min, std::int64_t max) const;
  std::uint64_t unsigned_integer(const Json& json) const;
  double number(const Json& json) const;  // finite
  bool boolean(const Json& json) const;
  const std::string& string(const Json& json) const;
  const Json::List& list(const Json& json) const;
  const Json::Object& object(const Json& json) const;

  /// Throws Error(kind, what, hint, "name:line:column").
  [[noreturn]] void fail(const Json& json, const std::string& what, const std::string& hint = {}) const;
};

/// What becomes of a key that stands twice in an object: an error, or both members stay and the caller tells.
enum class DuplicateKeys { refuse, keep };

/// Reads `text`; `name` stands in messages (a path), where the text begins at line `first_line`. Throws
/// Error(kind) with the place of the first mistake.
JsonDocument parse_strict(std::string_view text, std::string_view name, ErrorKind kind,
                          DuplicateKeys duplicates = DuplicateKeys::refuse, std::int64_t first_line = 1);

enum class JsonComments { blank, keep };

/// The text with a space for each byte of white space, and of a comment, outside its strings. nlohmann/json
/// repeats in its messages what it has read, and a control character there takes eight bytes.
std::string with_plain_spaces(std::string_view text, JsonComments comments);

/// A value as it stands on a command line: JSON, else the string itself.
Json json_or_string(const std::string& text);

}  // namespace quern
