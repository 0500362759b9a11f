#include "quern/infer/beam.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "quern/base/check.hpp"

namespace quern {
namespace {

/// A hypothesis and one more token.
struct Step {
  std::int64_t parent;
  std::int32_t token;
  double log_probability;
};

/// The tokens `ids`, once for each beam.
std::vector<std::int32_t> repeated(std::span<const std::int32_t> ids, std::int64_t times) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

/// The most tokens that can follow a prompt.
std::int64_t room(const Model& model, const Question& question, const BeamOptions& options) {
  const auto prompt = static_cast<std::int64_t>(question.prompt.size());
  if (!has_table(model.config().position)) return options.max_new_tokens;
  return std::min(options.max_new_tokens, model.config().context_length - prompt + 1);
}

class Search {
 public:
  Search(const Model& model, const Question& question, const BeamOptions& options)
      : model_(model),
        question_(question),
        options_(options),
        most_(room(model, question, options)),
        cache_(model.config(), options.beams,
               static_cast<std::int64_t>(question.prompt.size()) + std::max<std::int64_t>(most_, 1),
               model.parameters().compute(), static_cast<std::int64_t>(question.source.size())),
        live_(1) {}

  std::vector<Answer> run(const std::function<bool()>& cancelled) {
    for (std::int64_t length = 0; !live_.empty() && length < most_; ++length) {
      if (cancelled && cancelled()) return {};
      read(length == 0);
      follow(best_steps());
    }
    for (Answer& answer : live_) finish(std::move(answer), false);
    std::stable_sort(done_.begin(), done_.end(),
                     [](const Answer& a, const Answer& b) { return a.score > b.score; });
    return std::move(done_);
  }

 private:
  /// The log-probabilities of the next token of every live hypothesis, to logits_.
  void read(bool first) {
    const std::int64_t k = options_.beams, S = static_cast<std::int64_t>(question_.source.size());
    std::vector<std::int32_t> ids = repeated(question_.prompt, k);
    if (!first) {
      ids.assign(static_cast<std::size_t>(k), 0);  // beams without a hypothesis read anything
      for (std::size_t i = 0; i < live_.size(); ++i) ids[i] = live_[i].tokens.back();
    }
    const std::vector<std::int32_t> source = repeated(question_.source, first ? k : 0);
    Tape tape(workspace_, Mode::infer);
    Memory memory;
    if (S > 0)
      memory = first ? model_.encode(tape, {source.data(), k, S}) : model_.encoded_before(tape, k, S);
    const Tensor logits =
        model_.last_logits(tape, {ids.data(), k, static_cast<std::int64_t>(ids.size()) / k}, &cache_, memory)
            .value();  // (k,V)
    log_probabilities_.clear();
    for (std::size_t i = 0; i < live_.size(); ++i)
      normalise(logits.f32() + static_cast<std::int64_t>(i) * logits.last());
  }

  void normalise(const float* logits) {
    double top = -HUGE_VAL, total = 0;
    for (std::int32_t v = 0; v < question_.vocabulary; ++v) {
      if (!std::isfinite(logits[v]))
        throw Error(ErrorKind::diverged,
                    "the model's logit of token " + std::to_string(v) + " is not a finite number",
                    "its weights have diverged: use an earlier checkpoint, --checkpoint best or a step");
      top = std::max(top, static_cast<double>(logits[v]));
    }
    for (std::int32_t v = 0; v < question_.vocabulary; ++v)
      total += std::exp(static_cast<double>(logits[v]) - top);
    for (std::int32_t v = 0; v < question_.vocabulary; ++v)
      log_probabilities_.push_back(static_cast<double>(logits[v]) - top - std::log(total));
  }

  /// As many as there are beams left.
  std::vector<Step> best_steps() const {
    std::vector<Step> steps;
    for (std::size_t i = 0; i < live_.size(); ++i)
      for (std::int32_t v = 0; v < question_.vocabulary; ++v)
        steps.push_back({static_cast<std::int64_t>(i), v,
                         live_[i].log_probability +
                             log_probabilities_[i * static_cast<std::size_t>(question_.vocabulary) +
                                                static_cast<std::size_t>(v)]});
    const std::size_t wanted =
        std::min(steps.size(), static_cast<std::size_t>(options_.beams) - done_.size());
    std::partial_sort(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(wanted), steps.end(),
                      [](const Step& a, const Step& b) {
                        if (a.log_probability != b.log_probability)
                          return a.log_probability > b.log_probability;
                        return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
                      });
    steps.resize(wanted);
    return steps;
  }

  void follow(const std::vector<Step>& steps) {
    std::vector<Answer> next;
    std::vector<std::int64_t> parents;
    for (const Step& step : steps) {
      Answer answer = live_[static_cast<std::size_t>(step.parent)];
      answer.log_probability = step.log_probability;
      if (step.token == question_.end) {
        finish(std::move(answer), true);
        continue;
      }
      answer.tokens.push_back(step.token);
      next.push_back(std::move(answer));
      parents.push_back(step.parent);
    }
    live_ = std::move(next);
    parents.resize(static_cast<std::size_t>(options_.beams), 0);
    if (options_.beams > 1 && !live_.empty()) cache_.reorder(parents);
  }

  void finish(Answer answer, bool ended) {
    const double length = static_cast<double>(answer.tokens.size()) + (ended ? 1 : 0);
    answer.score = answer.log_probability / std::pow((5 + length) / 6, options_.length_penalty);
    answer.ended = ended;
    done_.push_back(std::move(answer));
  }

  const Model& model_;
  const Question& question_;
  const BeamOptions& options_;
  std::int64_t most_;
  KVCache cache_;
  Workspace workspace_;
  std::vector<Answer> live_, done_;
  std::vector<double> log_probabilities_;  // (live,V)
};

}  // namespace

void check(const BeamOptions& options) {
  const auto refuse = [](const char* flag, const std::string& value, const char* wanted) {
    throw Error(ErrorKind::config, std::string(flag) + ": " + value + " is out of range",
                std::string("expected ") + wanted);
  };
  if (options.beams < 1 || options.beams > 1024)
    refuse("--beams", std::to_string(options.beams), "an integer from 1 to 1024");
  if (!(options.length_penalty >= 0 && options.length_penalty <= 10))
    refuse("--length-penalty", std::to_string(options.length_penalty), "a number from 0 to 10");
  if (options.max_new_tokens < 1)
    refuse("--max-new-tokens", std::to_string(options.max_new_tokens), "an integer of 1 or more");
}

std::vector<Answer> beam_search(const Model& model, const Question& question, const BeamOptions& options,
                                const std::function<bool()>& cancelled) {
  check(options);
  QUERN_CHECK(question.source.empty() != model.has_memory(), question.source.size());
  QUERN_CHECK(
      !question.prompt.empty() && question.vocabulary > 0 && question.vocabulary <= model.config().vocab_size,
      question.prompt.size(), question.vocabulary);
  return Search(model, question, options).run(cancelled);
}

}  // namespace quern
