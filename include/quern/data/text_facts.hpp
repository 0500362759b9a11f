// What a text file holds, found in one pass over pieces of it: a file may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "quern/base/files.hpp"
#include "quern/base/strict_json.hpp"

namespace quern {

struct TextFacts {
  std::uint64_t bytes = 0;  // and so the tokens of the byte tokenizer
  std::uint64_t lines = 0;  // a last line without its newline counts

  /// The first byte that is not UTF-8.
  struct Invalid {
    std::uint64_t offset = 0;
    TextPosition at;
    std::uint8_t byte = 0;
  };
  std::optional<Invalid> invalid;
  std::uint64_t characters = 0;  // the tokens of a char tokenizer; 0 when the text is not UTF-8
  std::uint64_t distinct = 0;    // different characters, its vocabulary; 0 when the text is not UTF-8

  std::string fingerprint;  // what a run that is trained on this text alone records as its corpus
};

/// Reads a regular file in pieces of `piece` bytes. ErrorKind::file when it is missing or no regular file,
/// ErrorKind::io when the system refuses.
TextFacts describe_text(Files& files, const std::filesystem::path& path, std::size_t piece = 1 << 20);

}  // namespace quern
