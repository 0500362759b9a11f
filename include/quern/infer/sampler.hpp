// From logits to one token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quern/base/rng.hpp"

namespace quern {

/// How a token is drawn. The defaults draw from the model's own distribution.
struct SamplerOptions {
  double temperature = 1;         // 0: the most likely token
  std::int64_t top_k = 0;         // only the k most likely; 0 or at least V: all
  double top_p = 1;               // the fewest most likely tokens that hold this probability together; 1: all
  double min_p = 0;               // only tokens at least this share as likely as the most likely one
  double repetition_penalty = 1;  // above 1: tokens of the history become less likely
  std::uint64_t seed = 0;
};

/// Throws Error(config), naming the flag (--temperature, …), unless temperature >= 0 and finite, top_k >= 0,
/// top_p and min_p in [0, 1], repetition_penalty in [0.001, 1000].
void check(const SamplerOptions& options);

/// Draws tokens; the steps and their order are those of Hugging Face's generate():
///   1. repetition penalty r (Keskar et al. 2019, 1909.05858, section 4.1): the logit x of each token of the
///   history
///      becomes x / r when x > 0, else x * r, once however often the token stands there
///   2. temperature (Ackley et al. 1985): p = softmax(x / temperature), the maximum subtracted first
///   3. top-k (Fan et al. 2018, 1805.04833): the k most likely
///   4. top-p (Holtzman et al. 2019, 1904.09751): from the most likely on, as long as those before hold less
///   than top_p
///      of what 3 has left; the first always stays
///   5. min-p (Nguyen et al. 2024, 2407.01082): those with p >= min_p * max p
///   6. one of the rest, in proportion to p
/// Ties go to the lower id everywhere. The draw is a pure function of (seed, sample index, position).
class Sampler {
 public:
  /// Throws as check() does.
  explicit Sampler(const SamplerOptions& options, std::int64_t sample_index = 0);

  /// The id in [0, V) of the next token. `logits` (V); `history` holds ids in [0, V); `position` counts the
  /// tokens drawn. Throws Error(diverged) for a logit that is not finite. Allocates in the first call only.
  std::int32_t next(std::span<const float> logits, std::span<const std::int32_t> history,
                    std::int64_t position);

 private:
  struct Candidate {
    double logit;
    std::int32_t id;
    double weight;  // p, not normalised: exp((logit - max) / temperature)
  };

  void load(std::span<const float> logits, std::span<const std::int32_t> history);
  void weigh();
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();
  std::int32_t draw(std::int64_t position) const;

  SamplerOptions options_;
  std::uint64_t sample_index_;
  RandomStream stream_;
  std::vector<Candidate> candidates_;
};

}  // namespace quern
