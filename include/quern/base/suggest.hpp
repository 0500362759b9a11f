// Words for messages: the nearest of a list of valid names, and foreign text made safe to print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// Damerau-Levenshtein distance in its optimal-string-alignment form: insertions, deletions, substitutions
/// and swaps of neighbours, in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` (the first of several), upper and lower case being the same: within
/// max(2, length of word / 3) edits and nearer than a replacement of the whole word; else the first that
/// begins with the word or is its beginning (3 letters at least); else "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `did you mean "x"?` when a candidate is near, otherwise "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// `did you mean "x"?` when a candidate is near, otherwise "one of: a, b, c".
std::string did_you_mean_or_list(std::string_view word, const std::vector<std::string>& candidates);

/// The text in double quotes for a message: control characters, bidirectional controls and broken UTF-8 as
/// \xNN, at most about 60 bytes and then "...". Safe to print to a terminal.
std::string in_quotes(std::string_view text);

/// The same without the quotes, for names that came from outside.
std::string printable(std::string_view text);

/// JSON text with \u in place of what a terminal would obey or hide and JSON allows in its strings: DEL, C1,
/// line separators, bidirectional controls. It reads back to the same value.
std::string harmless_json(std::string_view json);

/// The text as one word of a shell's command line: in single quotes where it needs them.
std::string shell_word(const std::string& text);

/// "20, 10": numbers for a message.
std::string listed(const std::vector<std::int64_t>& numbers);

/// Bytes of the well-formed UTF-8 character at the start of `text` (1 to 4; no surrogates, no overlong forms,
/// at most U+10FFFF); 0 when there is none.
std::size_t utf8_length(std::string_view text);

/// Offset of the first byte that is not well-formed UTF-8; text.size() when all is.
std::size_t first_non_utf8(std::string_view text);

}  // namespace quern
