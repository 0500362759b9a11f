// What a trained model says of single lines: labels, tags, numbers, hidden tokens, answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quern/data/dataset.hpp"
#include "quern/infer/beam.hpp"
#include "quern/train/load.hpp"

namespace quern {

/// What a model says of one line.
struct Prediction {
  std::string text;  // the label, the tags with spaces between, the number, or the most likely answer
  std::optional<double> probability;  // of a label
  std::optional<double> value;        // a number
  std::vector<std::string> tags;      // of the line's tokens
  struct Candidate {
    std::string text;
    double log_probability, score;  // see Answer
  };
  std::vector<Candidate> answers;  // the best first
};

/// Says them one by one. `run` outlives this.
class Predictor {
 public:
  /// Throws Error(config) for a run that continues texts: that is sampling.
  Predictor(const LoadedRun& run, const BeamOptions& options);

  /// Whether it writes answers, which beams search.
  bool answers() const { return kind_ == Kind::answer; }

  /// A line of text; of a vit the path of an image. Nothing when `cancelled` said so. Throws
  /// Error(source.kind) for characters without a token and for a line that is too long.
  std::optional<Prediction> predict(const std::string& line, const Source& source,
                                    const std::function<bool()>& cancelled);

 private:
  enum class Kind { answer, label, value, tags, aligned, masked };

  Prediction classify(const Example& example);
  Prediction tag(const Example& example);
  /// Reads an image.
  void look(const std::string& path, const Source& source, Example& to) const;
  Prediction fill(const std::string& line, const Source& source);
  std::optional<Prediction> answer(const Example& example, const std::function<bool()>& cancelled);
  /// The logits of one row, f32  // (T,K), of a label or a number (1,K)
  Tensor logits(Tape& tape, const Example& example) const;
  void check_length(const Example& example, const Source& source) const;

  const LoadedRun& run_;
  BeamOptions options_;
  Kind kind_;
  PairFraming framing_;
  Workspace workspace_;
};

/// What a hidden token is written as, in lines for a masked language model.
constexpr const char* mask_text = "[MASK]";

}  // namespace quern
