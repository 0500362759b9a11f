#include <array>
#include <memory>
#include <set>

#include "dataset_parts.hpp"
#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"
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

/// The records of all files, in order.
class AllRecords {
 public:
  explicit AllRecords(const DataConfig& config) {
    for (const std::string& path : config.text) sets_.push_back(read_records(path, kind_of(config.task)));
    for (std::size_t i = 0; i < config.source.size(); ++i)
      sets_.push_back(read_parallel(config.source[i], config.target[i]));
  }

  void each(const RecordSet::Visit& visit) const {
    for (const RecordSet& set : sets_) set.each(visit);
  }
  std::int64_t size() const { return sum(&RecordSet::size); }
  std::int64_t skipped() const { return sum(&RecordSet::skipped); }

 private:
  std::int64_t sum(std::int64_t (RecordSet::*count)() const) const {
    std::int64_t all = 0;
    for (const RecordSet& set : sets_) all += (set.*count)();
    return all;
  }

  std::vector<RecordSet> sets_;
};

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
TextFile joint_text(const AllRecords& records, const std::string& name) {
  TextFile file{name, {}, std::nullopt};
  records.each([&](const Record& record) {
    file.bytes += text_of(record) + "\n";
    if (!record.target.empty()) file.bytes += record.target + "\n";
  });
  return file;
}

/// Those that the training records have, in order.
std::vector<std::string> labels_of(const AllRecords& records, std::int64_t train) {
  std::set<std::string> found;
  std::size_t bytes = 0;
  const auto add = [&](const std::string& label, const Record& record) {
    if (!found.insert(label).second) return;
    check_labels(found.size(), bytes += label.size(), record.place);
  };
  records.each([&](const Record& record) {
    if (train-- <= 0) return;
    if (!record.label.empty()) add(record.label, record);
    for (const std::string& tag : record.tags) add(tag, record);
  });
  return {found.begin(), found.end()};
}

std::int32_t class_of(const LabelIndex& labels, const std::string& label, const Record& record) {
  if (const auto found = labels.find(label)) return *found;
  throw Error(ErrorKind::file, "the label " + in_quotes(label) + " does not occur in the training records",
              "mix the records, or state all labels in data.labels", record.place);
}

/// A text inside which the mark stands would end there.
void refuse_marks(const std::string& text, const Record& record) {
  if (text.find('\n') == std::string::npos) return;
  throw Error(ErrorKind::file, "the text holds a newline, which ends a text for the model",
              "a space in its place", record.place);
}

Example example_of(const Record& record, const PairFraming& framing, const Tokenizer& tokenizer,
                   const LabelIndex& labels) {
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

/// Examples one behind the other: a list of small vectors would take many times the file.
class ExampleRows {
 public:
  explicit ExampleRows(std::int64_t count) { rows_.reserve(static_cast<std::size_t>(count)); }

  void add(const Example& example) {
    Row& row = rows_.emplace_back(Row{tokens_.size(), {}, example.value});
    const std::vector<std::int32_t>* parts[] = {&example.source, &example.inputs, &example.targets};
    for (int part = 0; part < 3; ++part) {
      row.sizes[part] = static_cast<std::uint32_t>(parts[part]->size());
      tokens_.insert(tokens_.end(), parts[part]->begin(), parts[part]->end());
    }
  }

  void get(std::int64_t index, Example& to) const {
    const Row& row = rows_[static_cast<std::size_t>(index)];
    const std::int32_t* from = tokens_.data() + row.begin;
    std::vector<std::int32_t>* parts[] = {&to.source, &to.inputs, &to.targets};
    for (int part = 0; part < 3; from += row.sizes[part++]) parts[part]->assign(from, from + row.sizes[part]);
    to.value = row.value;
  }

  Lengths lengths(std::int64_t index) const {
    const Row& row = rows_[static_cast<std::size_t>(index)];
    return {row.sizes[0], row.sizes[1]};
  }

 private:
  struct Row {
    std::size_t begin;
    std::uint32_t sizes[3];  // of source, inputs and targets
    float value;
  };
  std::vector<std::int32_t> tokens_;
  std::vector<Row> rows_;
};

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

/// Adds all of a record that training sees.
void add(Fingerprint& print, const Record& r) {
  print.text(r.text).text(r.label).texts(r.tokens).texts(r.tags).value(r.value).text(r.target);
}

}  // namespace

Dataset load_records(const DataConfig& config, const DataShape& shape,
                     const std::optional<Tokenizer>& given) {
  const AllRecords records(config);
  const std::string name = config.text.empty() ? config.source.at(0) : config.text[0];
  const std::int64_t all = records.size();
  const std::int64_t train = train_size(all, config.val_fraction);
  check_splits(name, train, all, config.val_fraction);
  Tokenizer tokenizer =
      given ? *given : make_tokenizer(config.tokenizer, std::array{joint_text(records, name)});
  if (config.task == TaskKind::tagging && tokenizer.kind() != Tokenizer::Kind::word)
    throw Error(ErrorKind::config,
                "data.tokenizer: tagging needs a token for each word, and this tokenizer's are " +
                    std::string(tokenizer.name()) + "s",
                "data.tokenizer word");
  std::vector<std::string> labels = config.labels.empty() ? labels_of(records, train) : config.labels;
  const LabelIndex numbers(labels);
  const PairFraming framing(tokenizer, shape.framing, false);
  const auto rows = std::make_shared<ExampleRows>(all);
  Fingerprint print;
  records.each([&](const Record& record) {
    add(print, record);
    const Example example = example_of(record, framing, tokenizer, numbers);
    check_length(example, record, shape);
    rows->add(example);
  });
  Examples examples;
  examples.kind = config.task == TaskKind::classification ? RowKind::label
                  : config.task == TaskKind::regression   ? RowKind::value
                                                          : RowKind::classes;
  examples.train = train;
  examples.held_out = all - train;
  examples.get = [rows, train](Split split, std::int64_t index, Example& to) {
    rows->get(split == Split::train ? index : train + index, to);
  };
  examples.lengths = [rows](std::int64_t index) { return rows->lengths(index); };
  std::vector<std::string> notes;
  if (records.skipped() > 0)
    notes.push_back(name + ": " + std::to_string(records.skipped()) +
                    " blank lines or records with an empty side were skipped");
  return {.tokenizer = std::move(tokenizer),
          .name = name,
          .fingerprint = print.digits(),
          .corpus = std::nullopt,
          .examples = std::move(examples),
          .labels = std::move(labels),
          .image = {},
          .notes = std::move(notes)};
}

}  // namespace quern
