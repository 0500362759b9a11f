#include "quern/infer/beam.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "infer/models.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t V = 5, end_token = 0;

/// A random encoder-decoder whose probabilities are far from even.
std::unique_ptr<Model> random_translator(std::uint64_t seed) {
  ModelConfig config = reference::small_config(NormPlacement::pre, PositionKind::learned, V, 12);
  config.architecture = Architecture::encoder_decoder;
  config.init = InitKind::xavier;
  config.tie_embeddings = false;
  auto model = reference::random_model(config, seed);
  for (Parameter& p : model->parameters().all())
    if (p.name == "head.weight")
      for (std::int64_t i = 0; i < p.size(); ++i) p.slot.value.f32()[i] *= 6;
  return model;
}

/// The log-probability of an answer, and of its end, by one forward over the whole.
double log_probability(const Model& model, const Ids& source, const Ids& prompt, Ids answer, bool ended) {
  Ids ids = prompt;
  ids.insert(ids.end(), answer.begin(), answer.end());
  if (ended) answer.push_back(end_token);
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  Memory memory;
  if (!source.empty())
    memory = model.encode(tape, {source.data(), 1, static_cast<std::int64_t>(source.size())});
  const Tensor logits =
      model.logits(tape, {ids.data(), 1, static_cast<std::int64_t>(ids.size())}, nullptr, nullptr, memory)
          .value();
  double total = 0;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const float* row = logits.f32() + static_cast<std::int64_t>(prompt.size() - 1 + i) * V;
    double sum = 0;
    for (std::int32_t v = 0; v < V; ++v) sum += std::exp(static_cast<double>(row[v]));
    total += static_cast<double>(row[answer[i]]) - std::log(sum);
  }
  return total;
}

double score(double log_p, std::size_t length, double alpha) {
  return log_p / std::pow((5 + static_cast<double>(length)) / 6, alpha);
}

/// Calls f with every answer of up to `most` tokens.
void for_each_answer(std::size_t most, const std::function<void(const Ids&, bool ended)>& f) {
  std::function<void(Ids&)> go = [&](Ids& answer) {
    f(answer, answer.size() < most);
    if (answer.size() == most) return;
    for (std::int32_t v = 1; v < V; ++v) {
      answer.push_back(v);
      go(answer);
      answer.pop_back();
    }
  };
  Ids empty;
  go(empty);
}

const Ids source = {1, 3, 2, 4, 1}, prompt = {2};

TEST_CASE("a beam as wide as all answers is exhaustive search") {
  constexpr std::size_t most = 3;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto model = random_translator(seed);
    for (const double alpha : {0.0, 0.6, 2.0}) {
      Ids best;
      double highest = -HUGE_VAL;
      for_each_answer(most, [&](const Ids& answer, bool ended) {
        const double found = score(log_probability(*model, source, prompt, answer, ended),
                                   answer.size() + (ended ? 1 : 0), alpha);
        if (found > highest) highest = found, best = answer;
      });
      const auto answers = beam_search(*model, {source, prompt, end_token, V}, {200, alpha, most}, {});
      CHECK(answers.front().tokens == best);
      CHECK(answers.front().score == Approx(highest).epsilon(1e-5));
      CHECK(answers.size() == 1 + 4 + 16 + 64);  // all there are
      CHECK(std::is_sorted(answers.begin(), answers.end(),
                           [](const Answer& a, const Answer& b) { return a.score > b.score; }));
    }
  }
}

TEST_CASE("one beam is greedy decoding, and what beams report is what a forward says") {
  for (const std::uint64_t seed : {4, 5, 6, 7}) {
    const auto model = random_translator(seed);
    Ids greedy;
    for (bool going = true; going && greedy.size() < 8;) {
      Ids ids = prompt;
      ids.insert(ids.end(), greedy.begin(), greedy.end());
      Workspace workspace;
      Tape tape(workspace, Mode::infer);
      const Memory memory = model->encode(tape, {source.data(), 1, static_cast<std::int64_t>(source.size())});
      const Tensor y =
          model->last_logits(tape, {ids.data(), 1, static_cast<std::int64_t>(ids.size())}, nullptr, memory)
              .value();
      const auto best = static_cast<std::int32_t>(std::max_element(y.f32(), y.f32() + V) - y.f32());
      going = best != end_token;
      if (going) greedy.push_back(best);
    }
    const auto one = beam_search(*model, {source, prompt, end_token, V}, {1, 0.6, 8}, {});
    REQUIRE(one.size() == 1);
    CHECK(one[0].tokens == greedy);
    for (const std::int64_t beams : {1, 2, 3, 7})
      for (const Answer& answer : beam_search(*model, {source, prompt, end_token, V}, {beams, 0.6, 8}, {}))
        CHECK(answer.log_probability ==
              Approx(log_probability(*model, source, prompt, answer.tokens, answer.ended)).epsilon(1e-5));
  }
}

TEST_CASE("a decoder alone answers a prompt; without an end all answers have the full length") {
  const auto model =
      reference::random_model(reference::small_config(NormPlacement::pre, PositionKind::rope, V, 8), 3);
  const Ids question = {1, 2, 3};
  for (const Answer& answer : beam_search(*model, {{}, question, -1, V}, {3, 0, 4}, {})) {
    CHECK(answer.tokens.size() == 4);
    CHECK(!answer.ended);
    CHECK(answer.log_probability ==
          Approx(log_probability(*model, {}, question, answer.tokens, false)).epsilon(1e-5));
  }
}

TEST_CASE("answers end where the model's positions do, and when they are cancelled") {
  const auto model = random_translator(1);
  const auto answers = beam_search(*model, {source, prompt, -1, V}, {1, 0, 100}, {});
  CHECK(answers[0].tokens.size() == 12);
  CHECK(beam_search(*model, {source, prompt, -1, V}, {1, 0, 100}, [] { return true; }).empty());
  CHECK_THROWS_AS(check(BeamOptions{0, 0.6, 8}), Error);
  CHECK_THROWS_AS(check(BeamOptions{1, -1, 8}), Error);
  CHECK_THROWS_AS(check(BeamOptions{1, 0, 0}), Error);
}

}  // namespace
}  // namespace quern
