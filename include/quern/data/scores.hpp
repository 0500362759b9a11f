// How good predictions are, in the metrics of classification, regression and translation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace quern {

/// Counts predictions of one sort (classes, values or whole answers) against the truth. A metric of nothing
/// is a bug: ask count() first.
class Scores {
 public:
  /// One classification; classes count from 0.
  void add_class(std::int32_t truth, std::int32_t prediction);

  /// One regression.
  void add_value(double truth, double prediction);

  /// One answer, right as a whole or not.
  void add_answer(bool exact);

  std::int64_t count() const { return count_; }

  /// Right classes, or right answers: how many, and as a share of all.
  std::int64_t exact() const { return exact_; }
  double accuracy() const;

  /// The mean over the classes of F1(c) = 2 TP(c) / (2 TP(c) + FP(c) + FN(c)), the "averaged F1" of Opitz &
  /// Burst 2019, "Macro F1 and Macro F1", over the classes that occur as truth or as prediction. Every class
  /// weighs the same, however rare.
  double macro_f1() const;

  /// sum (truth - prediction)^2 / n
  double mean_squared_error() const;

  /// R^2 = 1 - sum (truth - prediction)^2 / sum (truth - mean truth)^2: 1 for perfect predictions, 0 for the
  /// mean as every prediction, below for worse. Nothing where all truths are equal.
  std::optional<double> r_squared() const;

 private:
  struct ClassCounts {
    std::int64_t true_positive = 0, false_positive = 0, false_negative = 0;
  };
  ClassCounts& counts_of(std::int32_t label);

  std::int64_t count_ = 0;
  std::int64_t exact_ = 0;
  std::vector<ClassCounts> classes_;
  double squared_error_ = 0;
  double mean_ = 0;            // of the truths so far
  double squared_spread_ = 0;  // sum (truth - mean_)^2 of the truths so far
};

}  // namespace quern
