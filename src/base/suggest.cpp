#include "quern/base/suggest.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

namespace quern {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: i-2 (for swaps), i-1 and i.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::size_t limit = std::max<std::size_t>(2, word.size() / 3);
  const std::string wanted = lower(word);
  std::size_t best = limit + 1;
  std::string found, extended;
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    const std::size_t shorter = std::min(wanted.size(), name.size());
    const std::size_t longer = std::max(wanted.size(), name.size());
    if (extended.empty() && shorter >= 3 && (name.starts_with(wanted) || wanted.starts_with(name)))
      extended = candidate;
    if (longer - shorter > limit) continue;
    const std::size_t distance = edit_distance(wanted, name);
    // A distance of the whole word would suggest anything to a word of two letters.
    if (distance < best && distance < shorter) {
      best = distance;
      found = candidate;
    }
  }
  return found.empty() ? extended : found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? "" : "did you mean \"" + found + "\"?";
}

std::string did_you_mean_or_list(std::string_view word, const std::vector<std::string>& candidates) {
  std::string text = did_you_mean(word, candidates);
  if (!text.empty()) return text;
  for (const std::string& candidate : candidates) text += (text.empty() ? "one of: " : ", ") + candidate;
  return text;
}

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0; };
  const auto continued = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint8_t first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continued(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return continued(1) && continued(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return continued(1) && continued(2) && continued(3) ? 4 : 0;
  }
  return 0;
}

std::size_t first_non_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

namespace {

/// Whether a terminal would obey the character or hide it: controls, C1, line separators, bidirectional
/// controls.
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 &&
          ((byte(2) >= 0x8E && byte(2) <= 0x8F) || (byte(2) >= 0xA8 && byte(2) <= 0xAE))) ||
         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 60;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    if (out.size() >= longest) return out + "...";
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length > 0 && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) {
        const auto value = static_cast<std::uint8_t>(c);
        out += {'\\', 'x', digits[value >> 4], digits[value & 15]};
      }
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string harmless_json(std::string_view json) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  while (!json.empty()) {
    const std::string_view character = json.substr(0, std::max<std::size_t>(utf8_length(json), 1));
    json.remove_prefix(character.size());
    const bool control = static_cast<unsigned char>(character[0]) >= 0x7F && is_control(character);
    if (!control) {
      out += character;
      continue;
    }
    auto code = static_cast<unsigned>(static_cast<unsigned char>(character[0]));
    if (character.size() > 1) code &= character.size() == 2 ? 0x1F : 0x0F;
    for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
    out += {'\\', 'u', digits[code >> 12], digits[code >> 8 & 15], digits[code >> 4 & 15], digits[code & 15]};
  }
  return out;
}

std::string in_quotes(std::string_view text) { return '"' + printable(text) + '"'; }

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("._-/+:@,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace quern
