// Steps that stand out: a loss or a gradient far above those of the steps before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern {

/// The latest numbers of a series, as many as a judgement needs.
class RecentNumbers {
 public:
  static constexpr std::size_t size = 128;

  RecentNumbers() = default;
  /// The latest of these, oldest first.
  explicit RecentNumbers(std::vector<double> numbers);

  /// How many standard deviations `value` lies above the mean of the last 128 numbers; nothing while there
  /// are fewer, or all are equal.
  std::optional<double> z_score(double value) const;
  /// What is not finite is left out.
  void add(double value);

  const std::vector<double>& numbers() const { return numbers_; }  // oldest first

 private:
  std::vector<double> numbers_;
};

/// A number that stands out, and how far.
struct Spike {
  std::string what;  // "loss" or "gradient norm"
  double value = 0, z_score = 0;
};

/// Looks at each step's loss and gradient norm; after llm.c's outlier detector. The state is what the two
/// series hold.
class SpikeWatch {
 public:
  /// Deviations above the mean beyond which a step is called a spike. The largest of clean runs is in
  /// tools/LOG.md.
  static constexpr double threshold = 12;

  /// The spike that this step is, if it is one, the larger of the two; then it is one of the steps before.
  std::optional<Spike> see(double loss, double gradient_norm);

  RecentNumbers loss, gradient_norm;
};

}  // namespace quern
