// Texts as rows of tokens: reading, tokenizing, and the split into training and validation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/data/config.hpp"
#include "quern/data/tokens.hpp"
#include "quern/text/tokenizer.hpp"

namespace quern {

/// A text file as it was read.
struct TextFile {
  std::string name;   // the path, as given
  std::string bytes;  // its content, not empty
  /// "entropy_nats_per_char" of a file <stem>.meta.json beside the text: the mean negative log-probability
  /// per character under the process that wrote it, in nats.
  std::optional<double> entropy_nats_per_char;
};

/// The bytes of memory that this machine has.
std::uint64_t physical_memory();

/// Reads the texts; none named means the embedded corpus, data_directory() / "toy.txt". Throws Error(file)
/// for a text that is missing, empty, a directory, a pipe or a device, or that needs, tokenized, more than
/// `memory` bytes (three bytes for each byte of all texts together), and for a <stem>.meta.json that is
/// broken; Error(io) for one that the system refuses.
std::vector<TextFile> read_texts(const std::vector<std::string>& paths,
                                 std::uint64_t memory = physical_memory());

/// The tokenizer that data.tokenizer names: "byte", "char" or "word" (made from these texts), or a tokenizer
/// file's path. `read` is told of the texts' bytes as they are read.
Tokenizer make_tokenizer(const std::string& name, std::span<const TextFile> texts,
                         const BytesRead& read = {});

/// The tokens that lie before the validation split: floor((1 - val_fraction) * tokens), in exact arithmetic
/// on the decimal that the user wrote (0.9 of 10 tokens are 9, whatever 1 - 0.1 rounds to). 0 <= val_fraction
/// <= 1.
std::int64_t train_size(std::int64_t tokens, double val_fraction);

/// What one text is in a corpus' fingerprint, which is that of these parts joined: its size, and the
/// site_hash of its bytes.
std::string fingerprint_part(std::uint64_t bytes, std::uint64_t hash);

/// What ends a document within a text, as in GPT-2's and TinyStories' files. It belongs to the document that
/// it ends.
constexpr std::string_view end_of_text = "<|endoftext|>";

/// One long row of tokens, the texts joined in the order given with nothing between them; its tail is the
/// validation split.
struct Corpus {
  Tokenizer tokenizer;
  TokenStore tokens;
  std::int64_t n_train = 0;
  std::vector<std::int64_t> documents;  // where each begins: the texts, cut behind every end_of_text; or
                                        // empty, when the text is one stream
  std::string name;                     // the text's path, or "a.txt and 2 more"
  std::string fingerprint;              // of the texts' bytes and sizes: 16 hexadecimal digits
  /// Nats per token that no model can pass on fresh text of the same process; known when the text's entropy
  /// is and a token is a character: char, or byte on ASCII.
  std::optional<double> entropy_floor;

  TokenView train() const { return all().part(0, n_train); }
  TokenView val() const { return all().part(n_train, all().size() - n_train); }

 private:
  TokenView all() const { return view(tokens).with_documents(documents); }
};

/// Tokenizes and splits. Both splits must hold a window of context_length + 1 tokens, training unless
/// val_fraction is 1 (all is validation), validation unless it is 0; throws Error(file) that names what is
/// needed and what there is. Throws Error(file) for a text that the tokenizer does not take
/// (Tokenizer::append). `read` is told of the texts' bytes as they become tokens.
Corpus make_corpus(std::span<const TextFile> texts, Tokenizer tokenizer, double val_fraction,
                   std::int64_t context_length, PackKind pack = PackKind::none, const BytesRead& read = {});

/// Told how many bytes of how many a long text's reading has come to; at its end that all are done.
using ReadingProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// The corpus that a config names. `tokenizer`, when given, replaces data.tokenizer: a resumed run keeps its
/// own.
Corpus load_corpus(const DataConfig& config, std::int64_t context_length,
                   const std::optional<Tokenizer>& tokenizer = std::nullopt,
                   const ReadingProgress& progress = {});

}  // namespace quern
