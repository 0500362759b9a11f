// Text from a model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/infer/sampler.hpp"
#include "quern/nn/model.hpp"
#include "quern/text/tokenizer.hpp"

namespace quern {

/// What happens when the context is full. A model without a table of positions has no such end.
enum class OnFull {
  slide,  // the oldest half of the context is dropped and the rest read again
  stop,   // generation ends
};

struct GenerateOptions {
  SamplerOptions sampler;
  std::int64_t max_new_tokens = 500;
  std::vector<std::string> stop;  // the text ends before the first of these; matched on bytes, across tokens
  OnFull on_full = OnFull::slide;
  std::int64_t sample_index = 0;  // each index is a sample of its own under one seed
};

struct GenerateResult {
  enum class End { length, stop_string, context_full, cancelled } end = End::length;
  std::int64_t new_tokens = 0;      // drawn, those of a stop string too
  std::int64_t dropped_tokens = 0;  // of the prompt's beginning: it is longer than the context
};

/// Throws as check(SamplerOptions) does, and Error(config) for max_new_tokens below 0 or an empty stop
/// string.
void check(const GenerateOptions& options);

/// Continues `prompt` (ids; of one longer than the context, the last context_length). An empty one is
/// replaced by a newline if the tokenizer has that token, else by token 0; neither is part of the text. The
/// text reaches `on_text` in pieces of whole UTF-8 characters, U+FFFD for bytes that are none; what may yet
/// become a stop string is held back. `cancelled` is asked before each token and may be empty. Tokens that
/// the model has beyond the tokenizer's are never drawn. The repetition penalty's history is the whole prompt
/// and what was drawn. Equal arguments give equal text. Throws as check() does, Error(diverged) for logits
/// that are not finite.
GenerateResult generate(const Model& model, const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
                        const std::function<bool()>& cancelled);

}  // namespace quern
