#include "quern/infer/generate.hpp"

#include <algorithm>
#include <utility>

#include "quern/infer/reader.hpp"
#include "quern/infer/stop_strings.hpp"
#include "quern/text/utf8.hpp"

namespace quern {
namespace {

std::int32_t first_token(const Tokenizer& tokenizer) {
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (tokenizer.token_bytes(id) == "\n") return id;
  return 0;
}

/// The tokens so far and the part of them that the model has read.
class Context {
 public:
  Context(const Model& model, std::span<const std::int32_t> prompt)
      : reader_(model), tokens_(prompt.begin(), prompt.end()) {
    const auto limit = reader_.limit();
    if (limit) begin_ = std::max<std::int64_t>(0, size() - *limit);
  }

  std::int64_t dropped() const { return begin_; }
  std::span<const std::int32_t> history() const { return tokens_; }
  void append(std::int32_t id) { tokens_.push_back(id); }

  /// Whether there is a token more than the model can hold.
  bool overfull() const { return reader_.limit() && size() - begin_ > *reader_.limit(); }

  /// Drops the oldest half.
  void slide() {
    begin_ += (*reader_.limit() + 1) / 2;
    reader_.clear();
  }

  /// The logits of the last token, after what has not been read yet.
  std::span<const float> read() {
    return reader_.read(std::span(tokens_).subspan(static_cast<std::size_t>(begin_ + reader_.length())));
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

  Reader reader_;
  std::vector<std::int32_t> tokens_;
  std::int64_t begin_ = 0;  // tokens before this one are forgotten
};

/// From the bytes of tokens to text that may be shown.
class TextOutput {
 public:
  TextOutput(std::vector<std::string> stop, const std::function<void(std::string_view)>& on_text)
      : stop_(std::move(stop)), on_text_(on_text) {}

  /// Whether the text goes on.
  bool push(std::string_view bytes) {
    show(characters_.push(stop_.push(bytes)));
    return !stop_.found();
  }
  void finish() {
    show(characters_.push(stop_.finish()));
    show(characters_.finish());
  }

 private:
  void show(const std::string& text) const {
    if (!text.empty()) on_text_(text);
  }

  StopStrings stop_;
  Utf8Stream characters_;
  const std::function<void(std::string_view)>& on_text_;
};

}  // namespace

void check(const GenerateOptions& options) {
  check(options.sampler);
  if (options.max_new_tokens < 0) {
    throw Error(ErrorKind::config,
                "--max-new-tokens: " + std::to_string(options.max_new_tokens) + " is out of range",
                "expected an integer of 0 or more");
  }
  if (std::find(options.stop.begin(), options.stop.end(), "") != options.stop.end())
    throw Error(ErrorKind::config, "--stop: the string is empty",
                "leave --stop out to go on to --max-new-tokens");
}

GenerateResult generate(const Model& model, const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
                        const std::function<bool()>& cancelled) {
  using End = GenerateResult::End;
  check(options);
  QUERN_CHECK(model.config().vocab_size >= tokenizer.vocab_size(), model.config().vocab_size,
              tokenizer.vocab_size());
  const std::int32_t first = first_token(tokenizer);
  Context context(model, prompt.empty() ? std::span(&first, 1) : prompt);
  Sampler sampler(options.sampler, options.sample_index);
  TextOutput output(options.stop, on_text);
  GenerateResult result;
  result.dropped_tokens = context.dropped();
  result.end = [&] {
    while (result.new_tokens < options.max_new_tokens) {
      if (cancelled && cancelled()) return End::cancelled;
      if (context.overfull()) {
        if (options.on_full == OnFull::stop) return End::context_full;
        context.slide();
      }
      const auto logits = context.read().first(static_cast<std::size_t>(tokenizer.vocab_size()));
      const std::int32_t id = sampler.next(logits, context.history(), result.new_tokens++);
      const bool follows = !prompt.empty() || result.new_tokens > 1;
      const std::string_view gap =
          follows ? tokenizer.between(context.history().back(), id) : std::string_view();
      if (!output.push(std::string(gap) + std::string(tokenizer.token_bytes(id)))) return End::stop_string;
      context.append(id);
    }
    return End::length;
  }();
  output.finish();
  return result;
}

}  // namespace quern
