#include "quern/data/dataset.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "dataset_parts.hpp"
#include "quern/base/check.hpp"
#include "quern/text/fingerprint.hpp"

namespace quern {
namespace {

/// The id of the newline.
std::int32_t newline(const Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode("\n", {"the tokenizer", ErrorKind::file});
  QUERN_CHECK(ids.size() == 1, ids.size());
  return ids[0];
}

/// Characters that a tokenizer has, and more.
Tokenizer extended(const Tokenizer& tokenizer, const std::vector<std::string>& more) {
  if (tokenizer.kind() != Tokenizer::Kind::character) return tokenizer;
  std::vector<Text> texts;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    texts.push_back({tokenizer.token_bytes(id), {}});
  for (const std::string& text : more) texts.push_back({text, {}});
  return Tokenizer::characters(texts);
}

/// A question with one symbol for each of its own, '.' where none counts.
void frame_aligned(const Tokenizer& tokenizer, const Problem& problem, Example& to) {
  to.inputs = tokenizer.encode(problem.question);
  to.targets.clear();
  for (std::size_t t = 0; t < problem.answer.size(); ++t)
    to.targets.push_back(problem.answer[t] == '.' ? kIgnore
                                                  : tokenizer.encode(problem.answer.substr(t, 1))[0]);
}

/// A drawn task as examples.
struct DrawnTask {
  Problems problems;
  Tokenizer tokenizer;
  PairFraming framing;
  Framing kind;
  std::vector<std::string> labels;
  LabelIndex numbers;

  static std::vector<std::string> more_characters(const Problems& problems, Framing framing) {
    std::vector<std::string> more;
    const bool label = problems.form() == Form::label;
    if (framing != Framing::stream) more.emplace_back("\n");
    if (label && framing == Framing::stream) more = problems.labels(), more.emplace_back("\n");
    if (problems.form() == Form::pair && !problems.fixed_length()) more.emplace_back("\n");
    return more;
  }

  DrawnTask(const ProblemOptions& options, Framing kind_)
      : problems(options),
        tokenizer(extended(problems.tokenizer(), more_characters(problems, kind_))),
        framing(tokenizer, kind_, has_fixed_rows(problems)),
        kind(kind_),
        labels(problems.labels()),
        numbers(labels) {}
  DrawnTask(const DrawnTask&) = delete;  // framing holds the tokenizer's address
  DrawnTask& operator=(const DrawnTask&) = delete;

  void get(Split split, std::int64_t index, Example& to) const {
    const Problem problem = problems.at(split, index);
    if (problems.form() == Form::aligned) return frame_aligned(tokenizer, problem, to);
    if (kind != Framing::whole) return framing.frame(problem.question, problem.answer, {}, to);
    framing.ask(problem.question, {}, to);
    to.targets = {numbers.find(problem.answer).value()};
  }

  /// The longest side of any row.
  std::int64_t longest() const {
    const std::int64_t q = problems.question_length(), a = problems.answer_length();
    if (problems.form() == Form::aligned) return q;
    if (kind == Framing::whole) return q + 1;
    if (kind == Framing::memory) return std::max(q, a + 1);
    std::int64_t answer = a;
    for (const std::string& label : labels)
      answer = std::max(answer, static_cast<std::int64_t>(label.size()));
    return framing.fixed() ? q + a - 1 : q + answer + 1;
  }
};

Dataset load_drawn(const DataConfig& config, const DataShape& shape) {
  const ProblemOptions options = problem_options(config, shape.seed);
  const auto task = std::make_shared<const DrawnTask>(options, shape.framing);
  require_context(config.task, task->longest(), shape);
  Examples examples;
  examples.kind = shape.framing == Framing::whole && task->problems.form() == Form::label ? RowKind::label
                                                                                          : RowKind::classes;
  examples.train = task->problems.count(Split::train);
  const std::int64_t held_out = task->problems.count(Split::val);
  examples.held_out = held_out == 0 ? config.val_examples : held_out;
  examples.get = [task](Split split, std::int64_t index, Example& to) { task->get(split, index, to); };
  examples.lengths = [task](std::int64_t index) {
    Example example;
    task->get(Split::train, index, example);
    return example.lengths();
  };
  const auto number = [](std::int64_t n) { return std::to_string(n) + ";"; };
  return {.tokenizer = task->tokenizer,
          .name = std::string(enum_name(config.task)),
          .fingerprint = fingerprint_of(
              std::string(enum_name(config.task)) + ";" + number(options.length) + number(options.symbols) +
              number(options.digits) + number(options.modulus) + number(options.distance) +
              std::to_string(options.seed) + ";" + std::to_string(options.val_fraction)),
          .corpus = std::nullopt,
          .examples = std::move(examples),
          .labels = shape.framing == Framing::whole ? task->labels : std::vector<std::string>(),
          .image = {},
          .notes = {}};
}

}  // namespace

LabelIndex::LabelIndex(const std::vector<std::string>& labels) {
  sorted_.reserve(labels.size());
  for (const std::string& label : labels)
    sorted_.emplace_back(label, static_cast<std::int32_t>(sorted_.size()));
  std::sort(sorted_.begin(), sorted_.end());
}

std::optional<std::int32_t> LabelIndex::find(std::string_view label) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(label, std::int32_t{0}));
  if (found == sorted_.end() || found->first != label) return std::nullopt;
  return found->second;
}

void check_labels(std::size_t count, std::size_t bytes, const std::string& place) {
  const bool many = count > most_labels;
  if (!many && bytes <= most_label_bytes) return;
  throw Error(ErrorKind::file,
              "more than " + (many ? std::to_string(most_labels) + " different labels"
                                   : std::to_string(most_label_bytes) + " bytes of labels"),
              "what tells nearly every record from every other is no label: fewer and shorter ones", place);
}

void require_context(TaskKind task, std::int64_t longest, const DataShape& shape) {
  if (longest <= shape.context_length) return;
  throw Error(ErrorKind::config,
              "model.context_length is " + std::to_string(shape.context_length) +
                  ", but a row of data.task \"" + std::string(enum_name(task)) + "\" has up to " +
                  std::to_string(longest) + " tokens",
              "at least " + std::to_string(longest));
}

PairFraming::PairFraming(const Tokenizer& tokenizer, Framing framing, bool fixed)
    : tokenizer_(&tokenizer),
      framing_(framing),
      fixed_(fixed),
      mark_(framing == Framing::stream && fixed ? -1 : newline(tokenizer)) {}

void PairFraming::ask(const std::string& question, const Source& source, Example& to) const {
  to.source.clear();
  to.targets.clear();
  to.inputs = tokenizer_->encode(question, source);
  switch (framing_) {
    case Framing::stream:
      if (!fixed_) to.inputs.push_back(mark_);
      break;
    case Framing::memory: to.source = std::exchange(to.inputs, {mark_}); break;
    case Framing::whole: to.inputs.insert(to.inputs.begin(), mark_); break;
  }
}

void PairFraming::frame(const std::string& question, const std::string& answer, const Source& source,
                        Example& to) const {
  ask(question, source, to);
  to.targets.assign(to.inputs.size() - 1, kIgnore);
  for (const std::int32_t id : tokenizer_->encode(answer, source)) {
    to.inputs.push_back(id);
    to.targets.push_back(id);
  }
  if (framing_ == Framing::stream && fixed_) {
    to.inputs.pop_back();  // the last token is nobody's input
  } else {
    to.targets.push_back(mark_);
  }
}

std::optional<ProblemKind> problem_kind(TaskKind task) {
  for (const auto& kind : enum_names(ProblemKind{}))
    if (kind.name == enum_name(task)) return kind.value;
  return std::nullopt;
}

bool has_fixed_rows(const Problems& problems) {
  return problems.fixed_length() && problems.form() != Form::label;
}

ProblemOptions problem_options(const DataConfig& config, std::uint64_t seed) {
  ProblemOptions options = default_options(*problem_kind(config.task));
  const auto choose = [](std::int64_t& option, std::int64_t wanted) {
    if (wanted != 0) option = wanted;
  };
  choose(options.length, config.length);
  choose(options.symbols, config.symbols);
  choose(options.digits, config.digits);
  choose(options.modulus, config.modulus);
  choose(options.distance, config.distance);
  options.seed = seed;
  options.val_fraction = config.val_fraction;
  return options;
}

Dataset load_dataset(const DataConfig& config, const DataShape& shape,
                     const std::optional<Tokenizer>& tokenizer, const ReadingProgress& progress) {
  if (config.task == TaskKind::text) {
    Corpus corpus = load_corpus(config, shape.context_length, tokenizer, progress);
    return {.tokenizer = corpus.tokenizer,
            .name = corpus.name,
            .fingerprint = corpus.fingerprint,
            .corpus = std::move(corpus),
            .examples = std::nullopt,
            .labels = {},
            .image = {},
            .notes = {}};
  }
  if (config.task == TaskKind::images || config.task == TaskKind::shapes) return load_images(config, shape);
  return problem_kind(config.task) ? load_drawn(config, shape) : load_records(config, shape, tokenizer);
}

}  // namespace quern
