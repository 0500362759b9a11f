#include "quern/train/spikes.hpp"

#include <cmath>
#include <utility>

namespace quern {

RecentNumbers::RecentNumbers(std::vector<double> numbers) {
  for (const double number : numbers) add(number);
}

std::optional<double> RecentNumbers::z_score(double value) const {
  if (numbers_.size() < size) return std::nullopt;
  double mean = 0, variance = 0;
  for (const double x : numbers_) mean += x / static_cast<double>(size);
  for (const double x : numbers_) variance += (x - mean) * (x - mean) / static_cast<double>(size);
  if (!(variance > 0)) return std::nullopt;
  return (value - mean) / std::sqrt(variance);
}

void RecentNumbers::add(double value) {
  if (!std::isfinite(value)) return;
  if (numbers_.size() == size) numbers_.erase(numbers_.begin());
  numbers_.push_back(value);
}

std::optional<Spike> SpikeWatch::see(double loss_now, double gradient_norm_now) {
  const auto of_loss = loss.z_score(loss_now), of_gradient = gradient_norm.z_score(gradient_norm_now);
  loss.add(loss_now);
  gradient_norm.add(gradient_norm_now);
  Spike spike{"loss", loss_now, of_loss.value_or(0)};
  if (of_gradient.value_or(0) > spike.z_score) spike = {"gradient norm", gradient_norm_now, *of_gradient};
  if (spike.z_score > threshold) return spike;
  return std::nullopt;
}

}  // namespace quern
