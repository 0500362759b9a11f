#include "quern/train/predict.hpp"

#include <algorithm>
#include <cmath>

#include "quern/base/suggest.hpp"
#include "quern/kernels/loss.hpp"
#include "quern/train/objective.hpp"
#include "quern/watch/format.hpp"

namespace quern {
namespace {

/// A drawn task whose questions and answers have one length each.
std::optional<Problems> fixed_problems(const Config& config) {
  if (!problem_kind(config.data.task)) return std::nullopt;
  Problems problems(problem_options(config.data, config.run.seed));
  if (!has_fixed_rows(problems)) return std::nullopt;
  return problems;
}

std::int32_t best_of(const float* logits, std::int64_t n) {
  return static_cast<std::int32_t>(std::max_element(logits, logits + n) - logits);
}

}  // namespace

Predictor::Predictor(const LoadedRun& run, const BeamOptions& options)
    : run_(run),
      options_(options),
      kind_(Kind::answer),
      framing_(run.tokenizer, framing_of(run.config), fixed_problems(run.config).has_value()) {
  check(options_);
  switch (head_of(run.config)) {
    case HeadKind::label: kind_ = Kind::label; break;
    case HeadKind::value: kind_ = Kind::value; break;
    case HeadKind::tags: kind_ = Kind::tags; break;
    default:
      if (is_masked(run.config)) kind_ = Kind::masked;
      if (run.config.data.task == TaskKind::recall) kind_ = Kind::aligned;
  }
  if (run.config.data.task == TaskKind::text && kind_ == Kind::answer)
    throw Error(ErrorKind::config, "this run's model continues texts and answers no lines",
                "use quern sample");
  if (const auto fixed = fixed_problems(run.config); fixed && framing_of(run.config) == Framing::stream)
    options_.max_new_tokens = fixed->answer_length();
}

void Predictor::check_length(const Example& example, const Source& source) const {
  const std::int64_t n = example.longer_side();
  const std::int64_t most = run_.config.model.context_length;
  if (n <= most) return;
  throw Error(source.kind,
              "the line has " + std::to_string(n) + " tokens, and the model reads " + std::to_string(most),
              "a shorter line, or a model with a larger model.context_length", source.name);
}

Tensor Predictor::logits(Tape& tape, const Example& example) const {
  const Tokens tokens = {example.inputs.data(),
                         1,
                         static_cast<std::int64_t>(example.inputs.size()),
                         nullptr,
                         nullptr,
                         example.patches.empty() ? nullptr : example.patches.data()};
  return run_.model->logits(tape, tokens).value();
}

Prediction Predictor::classify(const Example& example) {
  Tape tape(workspace_, Mode::infer);
  const Tensor y = logits(tape, example);  // (1,K)
  Prediction found;
  if (kind_ == Kind::value) {
    found.value = static_cast<double>(y.f32()[0]);
    found.text = fixed(*found.value, 6);
    return found;
  }
  const auto& labels = run_.config.data.labels;
  const std::int32_t best = best_of(y.f32(), static_cast<std::int64_t>(labels.size()));
  double total = 0;
  for (std::size_t k = 0; k < labels.size(); ++k)
    total += std::exp(static_cast<double>(y.f32()[k]) - static_cast<double>(y.f32()[best]));
  found.text = labels[static_cast<std::size_t>(best)];
  found.probability = 1 / total;
  return found;
}

Prediction Predictor::tag(const Example& example) {
  Tape tape(workspace_, Mode::infer);
  const Tensor y = logits(tape, example);  // (1,T,K)
  Prediction found;
  const auto& labels = run_.config.data.labels;
  const bool tags = kind_ == Kind::tags;
  for (std::size_t t = 0; t < example.inputs.size(); ++t) {
    const float* row = y.f32() + static_cast<std::int64_t>(t) * y.last();
    const std::int32_t best =
        best_of(row, tags ? static_cast<std::int64_t>(labels.size()) : run_.tokenizer.vocab_size());
    found.tags.push_back(tags ? labels[static_cast<std::size_t>(best)]
                              : std::string(run_.tokenizer.token_bytes(best)));
    found.text += (tags && t > 0 ? " " : "") + found.tags.back();
  }
  return found;
}

void Predictor::look(const std::string& path, const Source& source, Example& to) const {
  const ImageSet set = read_image(path);
  const std::vector<std::int64_t>& wanted = run_.config.model.image;
  if (set.height != wanted[0] || set.width != wanted[1] || set.channels != wanted[2])
    throw Error(ErrorKind::file,
                "an image of " + std::to_string(set.width) + " x " + std::to_string(set.height) + " with " +
                    std::to_string(set.channels) + " channels, and the model reads " +
                    std::to_string(wanted[1]) + " x " + std::to_string(wanted[0]) + " with " +
                    std::to_string(wanted[2]),
                "an image like those of training", path + " (" + source.name + ")");
  image_example(set, run_.config.model.patch_size, to);
}

Prediction Predictor::fill(const std::string& line, const Source& source) {
  Example example;
  const std::int32_t mask = run_.tokenizer.vocab_size();
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(mask_text, begin);
    for (const std::int32_t id : run_.tokenizer.encode(line.substr(begin, end - begin), source))
      example.inputs.push_back(id);
    if (end == std::string::npos) break;
    example.inputs.push_back(mask);
    begin = end + std::string_view(mask_text).size();
  }
  if (std::find(example.inputs.begin(), example.inputs.end(), mask) == example.inputs.end())
    throw Error(source.kind, "the line hides no token",
                std::string("write ") + mask_text + " in place of one", source.name);
  check_length(example, source);
  Tape tape(workspace_, Mode::infer);
  const Tensor y = logits(tape, example);  // (1,T,V)
  for (std::size_t t = 0; t < example.inputs.size(); ++t)
    if (example.inputs[t] == mask)
      example.inputs[t] = best_of(y.f32() + static_cast<std::int64_t>(t) * y.last(), mask);
  Prediction found;
  found.text = run_.tokenizer.decode(example.inputs);
  return found;
}

std::optional<Prediction> Predictor::answer(const Example& example, const std::function<bool()>& cancelled) {
  const bool marked = framing_of(run_.config) == Framing::memory || !framing_.fixed();
  const Question question = {example.source, example.inputs, marked ? framing_.mark() : -1,
                             run_.tokenizer.vocab_size()};
  const std::vector<Answer> answers = beam_search(*run_.model, question, options_, cancelled);
  if (answers.empty()) return std::nullopt;
  Prediction found;
  for (const Answer& a : answers)
    found.answers.push_back({run_.tokenizer.decode(a.tokens), a.log_probability, a.score});
  found.text = found.answers[0].text;
  return found;
}

std::optional<Prediction> Predictor::predict(const std::string& line, const Source& source,
                                             const std::function<bool()>& cancelled) {
  if (line.find_first_not_of(" \t") == std::string::npos)
    throw Error(source.kind, "the line is empty", "a line of text", source.name);
  if (kind_ == Kind::masked) return fill(line, source);
  Example example;
  if (run_.config.model.architecture == Architecture::vit) {
    look(line, source, example);
  } else if (kind_ == Kind::aligned || kind_ == Kind::tags) {
    example.inputs = run_.tokenizer.encode(line, source);
  } else {
    framing_.ask(line, source, example);
  }
  check_length(example, source);
  if (kind_ == Kind::answer) return answer(example, cancelled);
  return kind_ == Kind::tags || kind_ == Kind::aligned ? tag(example) : classify(example);
}

}  // namespace quern
