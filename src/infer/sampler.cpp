#include "quern/infer/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "quern/base/check.hpp"

namespace quern {
namespace {

void require(bool fine, const char* flag, double value, const char* wanted) {
  if (fine) return;
  throw Error(ErrorKind::config, std::string(flag) + ": " + detail::describe(value) + "is out of range",
              std::string("expected ") + wanted);
}

}  // namespace

void check(const SamplerOptions& o) {
  require(std::isfinite(o.temperature) && o.temperature >= 0, "--temperature", o.temperature,
          "a number of 0 (the most likely token) or more");
  require(o.top_k >= 0, "--top-k", static_cast<double>(o.top_k), "an integer of 0 (all tokens) or more");
  require(o.top_p >= 0 && o.top_p <= 1, "--top-p", o.top_p,
          "a number from 0 (the most likely token) to 1 (all)");
  require(o.min_p >= 0 && o.min_p <= 1, "--min-p", o.min_p,
          "a number from 0 (all tokens) to 1 (the most likely)");
  require(o.repetition_penalty >= 1e-3 && o.repetition_penalty <= 1e3, "--repetition-penalty",
          o.repetition_penalty, "a number from 0.001 to 1000; 1 means no penalty");
}

Sampler::Sampler(const SamplerOptions& options, std::int64_t sample_index)
    : options_(options),
      sample_index_(static_cast<std::uint64_t>(sample_index)),
      stream_(options.seed, site_hash("sampler"), 0) {
  check(options_);
}

std::int32_t Sampler::next(std::span<const float> logits, std::span<const std::int32_t> history,
                           std::int64_t position) {
  load(logits, history);
  if (options_.temperature == 0) {
    const auto less = [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; };
    return std::max_element(candidates_.begin(), candidates_.end(), less)->id;  // the first of equals
  }
  weigh();
  keep_top_k();
  keep_top_p();
  keep_min_p();
  return draw(position);
}

void Sampler::load(std::span<const float> logits, std::span<const std::int32_t> history) {
  QUERN_CHECK(!logits.empty());
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (const float logit : logits) {
    const auto id = static_cast<std::int32_t>(candidates_.size());
    if (!std::isfinite(logit)) {
      throw Error(
          ErrorKind::diverged, "the model's logit of token " + std::to_string(id) + " is not a finite number",
          "its weights have diverged: sample from an earlier checkpoint, --checkpoint best or a step");
    }
    candidates_.push_back({logit, id, 0});
  }
  if (options_.repetition_penalty == 1) return;
  const double penalty = options_.repetition_penalty;
  for (const std::int32_t id : history) {
    QUERN_CHECK(id >= 0 && static_cast<std::size_t>(id) < logits.size(), id, logits.size());
    const double logit = logits[static_cast<std::size_t>(id)];
    candidates_[static_cast<std::size_t>(id)].logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void Sampler::weigh() {
  double max = candidates_[0].logit;
  for (const Candidate& c : candidates_) max = std::max(max, c.logit);
  for (Candidate& c : candidates_) c.weight = std::exp((c.logit - max) / options_.temperature);
}

// Leaves the candidates in order, which keep_top_p needs, unless neither cuts anything.
void Sampler::keep_top_k() {
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const auto n = static_cast<std::int64_t>(candidates_.size());
  const bool cuts = options_.top_k > 0 && options_.top_k < n;
  if (!cuts && options_.top_p == 1) return;
  if (cuts) {
    std::nth_element(candidates_.begin(), candidates_.begin() + options_.top_k, candidates_.end(), before);
    candidates_.erase(candidates_.begin() + options_.top_k, candidates_.end());
  }
  std::sort(candidates_.begin(), candidates_.end(), before);
}

void Sampler::keep_top_p() {
  if (options_.top_p == 1) return;
  double total = 0, before = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  std::size_t kept = 0;
  do {
    before += candidates_[kept++].weight;
  } while (kept < candidates_.size() && before < options_.top_p * total);
  candidates_.resize(kept);
}

void Sampler::keep_min_p() {
  std::erase_if(candidates_,
                [this](const Candidate& c) { return c.weight < options_.min_p; });  // max weight is 1
}

std::int32_t Sampler::draw(std::int64_t position) const {
  const auto at = static_cast<std::uint64_t>(position);
  RandomStream stream = stream_;
  stream.step = static_cast<std::uint32_t>(at >> 32);
  const auto bits = stream.at(sample_index_, static_cast<std::uint32_t>(at));
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  // In [0, total): 53 bits, so that a token of probability 1e-12 keeps it.
  double rest = (uniform(bits[0]) + uniform(bits[1] & 0xfffff800U) * 0x1p-32) * total;
  std::int32_t last = candidates_[0].id;
  for (const Candidate& c : candidates_) {
    if (c.weight == 0) continue;
    last = c.id;
    if (rest < c.weight) break;
    rest -= c.weight;
  }
  return last;
}

}  // namespace quern
