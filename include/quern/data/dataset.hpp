// What a run learns from, whatever the task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quern/data/corpus.hpp"
#include "quern/data/examples.hpp"
#include "quern/data/images.hpp"

namespace quern {

/// How a question and its answer lie before a model. The mark is the newline: no text holds one inside.
enum class Framing {
  stream,  // one row: question and answer, where lengths vary with a mark behind each; what counts is the
           // answer
  memory,  // an encoder reads the question; a decoder reads mark and answer and says answer and mark
  whole,   // an encoder reads mark and question; its first output says the label or the number
};

/// What the data must know of the model that learns from it.
struct DataShape {
  Framing framing = Framing::stream;
  std::int64_t context_length = 0;
  std::int64_t patch_size = 0;  // of images
  std::uint64_t seed = 0;
};

/// A text, or examples.
struct Dataset {
  Tokenizer tokenizer;
  std::string name;
  std::string fingerprint;  // of all that training sees of it, or of how it is drawn
  std::optional<Corpus> corpus;
  std::optional<Examples> examples;
  std::vector<std::string> labels;  // or tags, in the order of their numbers; none where tokens are told
  std::vector<std::int64_t> image;  // height, width, channels; or none
  std::vector<std::string> notes;   // what the user should know: lines that were skipped

  /// What the training split holds: tokens of a text, else examples, 0 without end; and the validation split.
  std::int64_t train_size() const { return corpus ? corpus->train().size() : examples->train; }
  std::int64_t val_size() const { return corpus ? corpus->val().size() : examples->held_out; }
  /// What an evaluation of a split takes.
  std::int64_t size(Split split) const {
    if (split == Split::val) return val_size();
    return corpus ? corpus->train().size() : examples->evaluated(split);
  }
};

/// The rows of questions and answers.
class PairFraming {
 public:
  /// With `fixed` all questions have one length and all answers too, so that a stream needs no mark.
  PairFraming(const Tokenizer& tokenizer, Framing framing, bool fixed);

  /// Errors in a text are of its source.
  void frame(const std::string& question, const std::string& answer, const Source& source, Example& to) const;
  /// A question without its answer: what a model reads before it goes on. inputs end where the answer begins.
  void ask(const std::string& question, const Source& source, Example& to) const;

  std::int32_t mark() const { return mark_; }
  bool fixed() const { return fixed_; }

 private:
  const Tokenizer* tokenizer_;
  Framing framing_;
  bool fixed_;
  std::int32_t mark_;
};

/// Whether data.task is drawn and not read.
std::optional<ProblemKind> problem_kind(TaskKind task);
/// Whether all its rows have one length, question and answer each, so that they need no marks.
bool has_fixed_rows(const Problems& problems);
/// The options that a config means.
ProblemOptions problem_options(const DataConfig& config, std::uint64_t seed);

/// One image cut into patches, to be told.
void image_example(const ImageSet& set, std::int64_t patch_size, Example& to);

/// The data that a config names, as a model of that shape takes it. `tokenizer`, when given, replaces
/// data.tokenizer: a resumed run keeps its own. Throws as load_corpus and Problems do; Error(config) for a
/// context_length below the longest drawn question, Error(file) for a line that is longer. `progress` is told
/// how far the reading of a text has come.
Dataset load_dataset(const DataConfig& config, const DataShape& shape,
                     const std::optional<Tokenizer>& tokenizer = std::nullopt,
                     const ReadingProgress& progress = {});

}  // namespace quern
