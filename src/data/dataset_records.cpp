#include <algorithm>
#include <memory>
#include <set>

#include "dataset_parts.hpp"
#include "quern/base/check.hpp"
#include "quern/data/records.hpp"
#include "quern/text/fingerprint.hpp"

namespace quern {
namespace {

RecordKind kind_of(TaskKind task) {
  switch (task) {
    case TaskKind::classification: return RecordKind::label;
    case TaskKind::tagging: return RecordKind::tags;
    case TaskKind::regression: return RecordKind::value;
    default: QUERN_CHECK(task == TaskKind::translation); return RecordKind::pair;
  }
}

RecordSet read_all(const DataConfig& config) {
  RecordSet all;
  const auto add = [&all](RecordSet more) {
    all.skipped += more.skipped;
    std::move(more.records.begin(), more.records.end(), std::back_inserter(all.records));
  };
  for (const std::string& path : config.text) add(read_records(path, kind_of(config.task)));
  for (std::size_t i = 0; i < config.source.size(); ++i)
    add(read_parallel(config.source[i], config.target[i]));
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// What a model reads of a record, as text.
std::string text_of(const Record& record) {
  return record.tokens.empty() ? record.text : joined(record.tokens);
}

/// All texts, each ended by a mark.
TextFile joint_text(const RecordSet& set, const std::string& name) {
  TextFile file{name, {}, std::nullopt};
  for (const Record& record : set.records) {
    file.bytes += text_of(record) + "\n";
    if (!record.target.empty()) file.bytes += record.target + "\n";
  }
  return file;
}

/// Those that the training records have, in order.
std::vector<std::string> labels_of(const RecordSet& set, std::int64_t train) {
  std::set<std::string> found;
  for (std::int64_t i = 0; i < train; ++i) {
    const Record& record = set.records[static_cast<std::size_t>(i)];
    if (!record.label.empty()) found.insert(record.label);
    found.insert(record.tags.begin(), record.tags.end());
  }
  return {found.begin(), found.end()};
}

std::int32_t class_of(const std::vector<std::string>& labels, const std::string& label,
                      const Record& record) {
  if (const auto found = index_of(labels, label)) return *found;
  throw Error(ErrorKind::file, "the label \"" + label + "\" does not occur in the training records",
              "mix the records, or state all labels in data.labels", record.place);
}

/// A text inside which the mark stands would end there.
void refuse_marks(const std::string& text, const Record& record) {
  if (text.find('\n') == std::string::npos) return;
  throw Error(ErrorKind::file, "the text holds a newline, which ends a text for the model",
              "a space in its place", record.place);
}

Example example_of(const Record& record, const PairFraming& framing, const Tokenizer& tokenizer,
                   const std::vector<std::string>& labels) {
  const Source source = {record.place, ErrorKind::file};
  Example example;
  if (!record.target.empty()) {
    refuse_marks(record.text, record);
    refuse_marks(record.target, record);
    framing.frame(record.text, record.target, source, example);
  } else if (!record.tags.empty()) {
    example.inputs = tokenizer.encode(joined(record.tokens), source);
    QUERN_CHECK(example.inputs.size() == record.tags.size(), example.inputs.size(), record.tags.size());
    for (const std::string& tag : record.tags) example.targets.push_back(class_of(labels, tag, record));
  } else {
    framing.ask(record.text, source, example);
    example.value = static_cast<float>(record.value);
    if (!record.label.empty()) example.targets = {class_of(labels, record.label, record)};
  }
  return example;
}

void check_length(const Example& example, const Record& record, const DataShape& shape) {
  const std::int64_t n = example.longer_side();
  if (n <= shape.context_length) return;
  throw Error(ErrorKind::file,
              "a row of " + std::to_string(n) + " tokens, and model.context_length is " +
                  std::to_string(shape.context_length),
              "a model.context_length of at least " + std::to_string(n) + ", or a shorter text",
              record.place);
}

void check_splits(const std::string& name, std::int64_t train, std::int64_t all, double val_fraction) {
  const auto refuse = [&](const char* split) {
    throw Error(ErrorKind::file,
                "the " + std::string(split) + " split has no record of " + std::to_string(all),
                "more records, or another data.val_fraction", name);
  };
  if (train == 0 && val_fraction < 1) refuse("training");
  if (train == all && val_fraction > 0) refuse("validation");
}

std::string fingerprint_of_records(const RecordSet& set) {
  std::string all;
  for (const Record& r : set.records)
    all += text_of(r) + '\t' + r.label + '\t' + joined(r.tags) + '\t' + std::to_string(r.value) + '\t' +
           r.target + '\n';
  return fingerprint_of(all);
}

}  // namespace

Dataset load_records(const DataConfig& config, const DataShape& shape,
                     const std::optional<Tokenizer>& given) {
  const RecordSet set = read_all(config);
  const std::string name = config.text.empty() ? config.source.at(0) : config.text[0];
  const auto all = static_cast<std::int64_t>(set.records.size());
  const std::int64_t train = train_size(all, config.val_fraction);
  check_splits(name, train, all, config.val_fraction);
  const TextFile text = joint_text(set, name);
  Tokenizer tokenizer = given ? *given : make_tokenizer(config.tokenizer, {&text, 1});
  if (config.task == TaskKind::tagging && tokenizer.kind() != Tokenizer::Kind::word)
    throw Error(ErrorKind::config,
                "data.tokenizer: tagging needs a token for each word, and this tokenizer's are " +
                    std::string(tokenizer.name()) + "s",
                "data.tokenizer word");
  std::vector<std::string> labels = config.labels.empty() ? labels_of(set, train) : config.labels;
  const PairFraming framing(tokenizer, shape.framing, false);
  const auto rows = std::make_shared<std::vector<Example>>();
  for (const Record& record : set.records) {
    rows->push_back(example_of(record, framing, tokenizer, labels));
    check_length(rows->back(), record, shape);
  }
  Examples examples;
  examples.kind = config.task == TaskKind::classification ? RowKind::label
                  : config.task == TaskKind::regression   ? RowKind::value
                                                          : RowKind::classes;
  examples.train = train;
  examples.held_out = all - train;
  examples.get = [rows, train](Split split, std::int64_t index, Example& to) {
    to = (*rows)[static_cast<std::size_t>(split == Split::train ? index : train + index)];
  };
  examples.length = [rows](std::int64_t index) {
    return (*rows)[static_cast<std::size_t>(index)].both_sides();
  };
  std::vector<std::string> notes;
  if (set.skipped > 0)
    notes.push_back(name + ": " + std::to_string(set.skipped) +
                    " blank lines or records with an empty side were skipped");
  return {.tokenizer = std::move(tokenizer),
          .name = name,
          .fingerprint = fingerprint_of_records(set),
          .corpus = std::nullopt,
          .examples = std::move(examples),
          .labels = std::move(labels),
          .image = {},
          .notes = std::move(notes)};
}

}  // namespace quern
