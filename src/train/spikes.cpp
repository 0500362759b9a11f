#include "quern/train/spikes.hpp"

#include <cmath>
#include <utility>

namespace quern {

RecentNumbers::RecentNumbers(std::vector<double> numbers) {
  for (const double number : numbers) add(number);
}

std::optional<double> RecentNumbers::z_score(double value, Scale scale) const {
  if (numbers_.size() < size) return std::nullopt;
  const auto on_scale = [&](double x) { return scale == Scale::logarithmic ? std::log(x) : x; };
  double mean = 0, variance = 0;
  for (const double x : numbers_) mean += on_scale(x) / static_cast<double>(size);
  for (const double x : numbers_) variance += std::pow(on_scale(x) - mean, 2) / static_cast<double>(size);
  if (!(variance > 0)) return std::nullopt;
  return (on_scale(value) - mean) / std::sqrt(variance);
}

void RecentNumbers::add(double value) {
  if (!std::isfinite(value)) return;
  if (numbers_.size() == size) numbers_.erase(numbers_.begin());
  numbers_.push_back(value);
}

std::optional<Spike> SpikeWatch::see(double loss_now, double gradient_norm_now) {
  const double of_loss = loss.z_score(loss_now, Scale::linear).value_or(0);
  const double of_log_loss = loss.z_score(loss_now, Scale::logarithmic).value_or(0);
  const double of_log_norm = gradient_norm.z_score(gradient_norm_now, Scale::logarithmic).value_or(0);
  loss.add(loss_now);
  gradient_norm.add(gradient_norm_now);
  if (of_loss > loss_threshold && of_log_loss > log_loss_threshold)
    return Spike{"loss", loss_now, of_loss, Scale::linear};
  if (of_log_norm > log_norm_threshold)
    return Spike{"gradient norm", gradient_norm_now, of_log_norm, Scale::logarithmic};
  return std::nullopt;
}

}  // namespace quern
