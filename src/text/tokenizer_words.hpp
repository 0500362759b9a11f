// What a word is, and the tokens that every word tokenizer has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quern/base/suggest.hpp"

namespace quern {

inline constexpr std::string_view kUnknownWord = "<unk>";
inline constexpr std::string_view kBetweenWords = " \t\n";
inline constexpr std::int32_t kUnknownId = 0;
inline constexpr std::int32_t kNewlineId = 1;
inline constexpr std::int32_t kFirstWordId = 2;
inline constexpr std::size_t kMaxWordBytes = 4096;

inline bool is_word(std::string_view bytes) {
  return !bytes.empty() && bytes.size() <= kMaxWordBytes &&
         bytes.find_first_of(kBetweenWords) == bytes.npos && first_non_utf8(bytes) == bytes.size();
}

}  // namespace quern
