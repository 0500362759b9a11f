#include "quern/data/corpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "quern/base/files.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/data/locate.hpp"
#include "quern/text/fingerprint.hpp"

namespace quern {
namespace {

constexpr std::uint64_t kMaxMetaBytes = 1 << 20;
constexpr std::uint64_t kBytesPerTextByte = 3;  // the text itself and one two-byte token

/// Calls f; an Error without a hint gets this one.
template <class F>
auto with_hint(const std::string& hint, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    if (error.hint.empty()) error.hint = hint;
    throw;
  }
}

std::optional<double> read_entropy(const std::filesystem::path& text) {
  std::filesystem::path path = text;
  path.replace_extension(".meta.json");
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return std::nullopt;
  const JsonDocument meta = parse_strict(read_file(path, kMaxMetaBytes), path.string(), ErrorKind::file);
  const Json* entropy = meta.root.find("entropy_nats_per_char");
  if (entropy == nullptr) return std::nullopt;
  const double nats = meta.number(*entropy);
  if (!(nats > 0)) meta.fail(*entropy, "expected a number above 0, found " + entropy->describe());
  return nats;
}

TextFile read_text(const std::string& path, std::uint64_t memory, std::uint64_t taken) {
  Files files;
  const File file = with_hint(
      "a text (data.text, data.source, data.target, --text) is one regular file; its path starts where quern "
      "was started",
      [&] { return files.open_read(path); });
  const std::uint64_t size = file.size();
  if (size == 0) throw Error(ErrorKind::file, "the text is empty", "there is nothing to learn from", path);
  if (size > memory / kBytesPerTextByte - std::min(taken, memory / kBytesPerTextByte)) {
    throw Error(ErrorKind::file,
                "the text is larger than memory: it has " + std::to_string(size) + " bytes" +
                    (taken > 0 ? " after " + std::to_string(taken) + " of the texts before it" : "") +
                    ", and each takes 3 of the machine's " + std::to_string(memory),
                "train on a part of it", path);
  }
  TextFile text{path, std::string(size, '\0'), std::nullopt};
  file.read_at(0, text.bytes.data(), text.bytes.size());
  text.entropy_nats_per_char = read_entropy(path);
  return text;
}

std::string joint_name(std::span<const TextFile> texts) {
  const std::string& first = texts.front().name;
  return texts.size() == 1 ? first : first + " and " + std::to_string(texts.size() - 1) + " more";
}

std::string fingerprint_of_texts(std::span<const TextFile> texts) {
  std::string parts;
  for (const TextFile& text : texts) parts += fingerprint_part(text.bytes.size(), site_hash(text.bytes));
  return fingerprint_of(parts);
}

std::optional<double> entropy_per_token(std::span<const TextFile> texts, const Tokenizer& tokenizer) {
  if (texts.size() != 1) return std::nullopt;
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  const std::string& bytes = texts.front().bytes;
  const bool token_is_character =
      tokenizer.kind() == Tokenizer::Kind::character ||
      (tokenizer.kind() == Tokenizer::Kind::byte && std::all_of(bytes.begin(), bytes.end(), is_ascii));
  return token_is_character ? texts.front().entropy_nats_per_char : std::nullopt;
}

// Member by member: GCC 12 frees the name twice when, within one list, memory runs out for `read`.
Text as_text(const TextFile& file, const BytesRead& read = {}) {
  Text text;
  text.bytes = file.bytes;
  text.source.name = file.name;
  text.source.kind = ErrorKind::file;
  text.read = read;
  return text;
}

/// The tokens of all texts. `documents`, unless it is null, becomes the places where documents begin.
template <class Id>
std::vector<Id> tokenize(std::span<const TextFile> texts, const Tokenizer& tokenizer,
                         std::vector<std::int64_t>* documents, const BytesRead& read) {
  std::vector<Id> ids;
  for (const TextFile& text : texts) {
    const std::size_t before = ids.size();
    tokenizer.append(ids, as_text(text, read));
    if (documents == nullptr) continue;
    ids.resize(before);  // again in pieces, now that the whole is known to be good
    for (std::string_view rest = text.bytes; !rest.empty();) {
      documents->push_back(static_cast<std::int64_t>(ids.size()));
      const std::size_t mark = rest.find(end_of_text);
      const std::size_t size = mark == rest.npos ? rest.size() : mark + end_of_text.size();
      tokenizer.append(ids, {rest.substr(0, size), {text.name, ErrorKind::file}});
      rest.remove_prefix(size);
    }
  }
  return ids;
}

/// Throws unless every split that is wanted has a window.
void check_windows(const Corpus& corpus, double val_fraction, std::int64_t context_length) {
  const std::int64_t window = context_length + 1;
  const std::int64_t n = view(corpus.tokens).size();
  const std::int64_t n_val = n - corpus.n_train;
  const auto count = [](std::int64_t tokens) {
    return std::to_string(tokens) + (tokens == 1 ? " token" : " tokens");
  };
  const std::string needs =
      "one window of context_length " + std::to_string(context_length) + " needs " + std::to_string(window);
  const std::string split =
      " of the text's " + std::to_string(n) + " (val_fraction " + nlohmann::json(val_fraction).dump() + "), ";
  if (n < window) {
    throw Error(ErrorKind::file, "the text has " + count(n) + ", " + needs,
                "a longer text, or a smaller model.context_length", corpus.name);
  }
  if (val_fraction < 1 && corpus.n_train < window) {
    throw Error(ErrorKind::file, "the training split has " + count(corpus.n_train) + split + needs,
                "a longer text, a smaller model.context_length, or a smaller data.val_fraction", corpus.name);
  }
  if (val_fraction > 0 && n_val < window) {
    throw Error(ErrorKind::file, "the validation split has " + count(n_val) + split + needs,
                "a larger data.val_fraction, a smaller model.context_length, or data.val_fraction 0 for none",
                corpus.name);
  }
}

}  // namespace

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::vector<TextFile> read_texts(const std::vector<std::string>& paths, std::uint64_t memory) {
  if (paths.empty()) return read_texts({(data_directory() / "toy.txt").string()}, memory);
  std::vector<TextFile> texts;
  std::uint64_t taken = 0;
  for (const std::string& path : paths) {
    texts.push_back(read_text(path, memory, taken));
    taken += texts.back().bytes.size();
  }
  return texts;
}

Tokenizer make_tokenizer(const std::string& name, std::span<const TextFile> texts, const BytesRead& read) {
  if (name == "byte") return Tokenizer::bytes();
  if (name == "char" || name == "word") {
    std::vector<Text> views;
    for (const TextFile& text : texts) views.push_back(as_text(text, read));
    return name == "char" ? Tokenizer::characters(views) : Tokenizer::words(views);
  }
  return with_hint("data.tokenizer is \"byte\", \"char\", \"word\" or the path of a tokenizer.json",
                   [&] { return Tokenizer::load(name); });
}

std::string fingerprint_part(std::uint64_t bytes, std::uint64_t hash) {
  return std::to_string(bytes) + ":" + hash_digits(hash) + ";";
}

std::int64_t train_size(std::int64_t tokens, double val_fraction) {
  QUERN_CHECK(tokens >= 0 && val_fraction >= 0 && val_fraction <= 1, tokens, val_fraction);
  const double n = static_cast<double>(tokens);
  const double exact = (1 - val_fraction) * n;
  // val_fraction, the difference and the product are each off by at most half a unit of 2^-53: within 2^-51 n
  // of a whole number, the decimal's product is that number.
  const double nearest = std::round(exact);
  if (std::abs(exact - nearest) <= 0x1p-51 * n) return static_cast<std::int64_t>(nearest);
  return static_cast<std::int64_t>(std::floor(exact));
}

Corpus make_corpus(std::span<const TextFile> texts, Tokenizer tokenizer, double val_fraction,
                   std::int64_t context_length, PackKind pack, const BytesRead& read) {
  QUERN_CHECK(!texts.empty() && context_length >= 1, texts.size(), context_length);
  Corpus corpus{.tokenizer = std::move(tokenizer),
                .tokens = {},
                .n_train = 0,
                .documents = {},
                .name = joint_name(texts),
                .fingerprint = fingerprint_of_texts(texts),
                .entropy_floor = std::nullopt};
  std::vector<std::int64_t>* documents = pack == PackKind::documents ? &corpus.documents : nullptr;
  if (corpus.tokenizer.vocab_size() <= 1 + std::numeric_limits<std::uint16_t>::max()) {
    corpus.tokens = tokenize<std::uint16_t>(texts, corpus.tokenizer, documents, read);
  } else {
    corpus.tokens = tokenize<std::int32_t>(texts, corpus.tokenizer, documents, read);
  }
  corpus.n_train = train_size(view(corpus.tokens).size(), val_fraction);
  corpus.entropy_floor = entropy_per_token(texts, corpus.tokenizer);
  check_windows(corpus, val_fraction, context_length);
  return corpus;
}

Corpus load_corpus(const DataConfig& config, std::int64_t context_length,
                   const std::optional<Tokenizer>& tokenizer, const ReadingProgress& progress) {
  const std::vector<TextFile> texts = read_texts(config.text);
  std::int64_t done = 0, total = 0;
  for (const TextFile& text : texts) total += static_cast<std::int64_t>(text.bytes.size());
  const bool twice = !tokenizer && (config.tokenizer == "char" || config.tokenizer == "word");
  const BytesRead read = [&](std::int64_t bytes) {
    if (progress) progress((done += bytes) / (twice ? 2 : 1), total);
  };
  Corpus corpus = make_corpus(texts, tokenizer ? *tokenizer : make_tokenizer(config.tokenizer, texts, read),
                              config.val_fraction, context_length, config.pack, read);
  if (progress) progress(total, total);
  return corpus;
}

}  // namespace quern
