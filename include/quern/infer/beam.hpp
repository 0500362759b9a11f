// Answers from a model: the most likely ones, greedily or by beam search.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "quern/nn/model.hpp"

namespace quern {

struct BeamOptions {
  std::int64_t beams = 1;       // hypotheses that are followed; 1: greedy
  double length_penalty = 0.6;  // alpha of Wu et al. 2016; 0: none
  std::int64_t max_new_tokens = 256;
};

/// Throws Error(config), naming the flag, for options out of range.
void check(const BeamOptions& options);

/// What an answer begins from. A prompt is read by a decoder; a source, unless it is empty, by an encoder
/// before.
struct Question {
  std::span<const std::int32_t> source, prompt;
  std::int32_t end = -1;        // the token that ends an answer; -1: none does
  std::int32_t vocabulary = 0;  // tokens that may be drawn: those below
};

struct Answer {
  std::vector<std::int32_t> tokens;  // without the end
  double log_probability = 0;        // of the tokens and the end, in nats
  double score = 0;    // log_probability / ((5 + length) / 6)^alpha, the end counts (Wu et al. 2016,
                       // 1609.08144, section 7)
  bool ended = false;  // with the end, not at max_new_tokens
};

/// The answers that a beam search finds, the highest score first; ties go to lower tokens. At each step the
/// best continuations of all hypotheses are followed, as many as beams are left; one that ends takes its beam
/// with it. So with one beam this is greedy decoding, and with enough of them exhaustive search. Keys and
/// values are cached, those of the source too. No more tokens than the model's positions allow. Nothing when
/// `cancelled` said so. Throws Error(diverged) for logits that are not finite.
std::vector<Answer> beam_search(const Model& model, const Question& question, const BeamOptions& options,
                                const std::function<bool()>& cancelled);

}  // namespace quern
