#include "quern/data/scores.hpp"

#include "quern/base/check.hpp"

namespace quern {

Scores::ClassCounts& Scores::counts_of(std::int32_t label) {
  const auto i = static_cast<std::size_t>(label);
  if (i >= classes_.size()) classes_.resize(i + 1);
  return classes_[i];
}

void Scores::add_class(std::int32_t truth, std::int32_t prediction) {
  QUERN_CHECK(truth >= 0 && prediction >= 0, truth, prediction);
  ++count_;
  if (truth == prediction) {
    ++exact_;
    ++counts_of(truth).true_positive;
  } else {
    ++counts_of(truth).false_negative;
    ++counts_of(prediction).false_positive;
  }
}

void Scores::add_value(double truth, double prediction) {
  ++count_;
  squared_error_ += (truth - prediction) * (truth - prediction);
  // Welford 1962: the spread without the cancellation of sum x^2 - n mean^2.
  const double before = truth - mean_;
  mean_ += before / static_cast<double>(count_);
  squared_spread_ += before * (truth - mean_);
}

void Scores::add_answer(bool exact) {
  ++count_;
  exact_ += exact ? 1 : 0;
}

double Scores::accuracy() const {
  QUERN_CHECK(count_ > 0);
  return static_cast<double>(exact_) / static_cast<double>(count_);
}

double Scores::macro_f1() const {
  double sum = 0;
  int occurring = 0;
  for (const ClassCounts& c : classes_) {
    const std::int64_t all = 2 * c.true_positive + c.false_positive + c.false_negative;
    if (all == 0) continue;
    sum += 2 * static_cast<double>(c.true_positive) / static_cast<double>(all);
    ++occurring;
  }
  QUERN_CHECK(occurring > 0);
  return sum / occurring;
}

double Scores::mean_squared_error() const {
  QUERN_CHECK(count_ > 0);
  return squared_error_ / static_cast<double>(count_);
}

std::optional<double> Scores::r_squared() const {
  QUERN_CHECK(count_ > 0);
  if (squared_spread_ == 0) return std::nullopt;
  return 1 - squared_error_ / squared_spread_;
}

}  // namespace quern
