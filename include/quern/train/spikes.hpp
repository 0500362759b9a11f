// Steps that stand out: a loss or a gradient far above those of the steps before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern {

/// How numbers are compared: as they are, or by their natural logarithms.
enum class Scale { linear, logarithmic };

/// The latest numbers of a series, as many as a judgement needs.
class RecentNumbers {
 public:
  static constexpr std::size_t size = 128;

  RecentNumbers() = default;
  /// The latest of these, oldest first.
  explicit RecentNumbers(std::vector<double> numbers);

  /// How many standard deviations `value` lies above the mean of the last 128 numbers; nothing while there
  /// are fewer, or all are equal, or one has no logarithm.
  std::optional<double> z_score(double value, Scale scale = Scale::linear) const;
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
  Scale scale = Scale::linear;  // on which it does
};

/// Looks at each step's loss and gradient norm; after llm.c's outlier detector, which compares numbers as
/// they are. Norms have a long tail: only their logarithms tell. A loss must stand out on both scales: a
/// small model that errs once where it is nearly always right has a loss a hundred times that of the steps
/// before, and a hundredth of what a spike has. The thresholds are from the runs in tools/LOG.md. The state
/// is what the two series hold.
class SpikeWatch {
 public:
  static constexpr double loss_threshold = 10, log_loss_threshold = 4, log_norm_threshold = 10;

  /// The spike that this step is, if it is one; then it is one of the steps before.
  std::optional<Spike> see(double loss, double gradient_norm);

  RecentNumbers loss, gradient_norm;
};

}  // namespace quern
