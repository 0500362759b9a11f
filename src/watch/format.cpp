#include "quern/watch/format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace quern {

namespace {

// to_chars, unlike printf, does not depend on the locale.
std::string digits_of(double value, std::chars_format form, int precision) {
  std::array<char, 400> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, form, precision);
  return {buffer.data(), result.ptr};
}

void trim_zeros(std::string& text) {
  if (text.find('.') == std::string::npos) return;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
}

std::string two_digits(std::int64_t value) {
  return {static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
}

}  // namespace

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = text.size(); i > first + 3;) text.insert(i -= 3, 1, ',');
  return text;
}

std::string compact(double value) {
  if (!std::isfinite(value)) return fixed(value, 0);
  static constexpr std::array<const char*, 5> suffixes = {"", "k", "M", "G", "T"};
  std::size_t power = 0;
  while (std::abs(value) >= 999.5 && power + 1 < suffixes.size()) {
    value /= 1000;
    ++power;
  }
  const double size = std::abs(value);
  std::string text = fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  trim_zeros(text);
  return text + suffixes[power];
}

std::string binary_size(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> units = {" B", " KiB", " MiB", " GiB", " TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t power = 0;
  while (std::abs(value) >= 999.5 && power + 1 < units.size()) {
    value /= 1024;
    ++power;
  }
  return fixed(value, power == 0 || std::abs(value) >= 99.95 ? 0 : 1) + units[power];
}

std::string clock_time(double seconds) {
  if (!(seconds >= 0 && seconds < 1e12)) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return std::to_string(days) + "d " + two_digits(hours % 24) + "h";
  const std::string tail = ":" + two_digits(whole % 60);
  if (hours == 0) return std::to_string(minutes) + tail;
  return std::to_string(hours) + ":" + two_digits(minutes % 60) + tail;
}

std::string duration(double seconds) {
  if (!(seconds >= 0 && seconds < 59.95)) return clock_time(seconds);
  return fixed(seconds, seconds < 9.995 ? 2 : 1) + " s";
}

std::string scientific(double value, int digits) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || value == 0) return fixed(value, 0);
  if (size >= 0.01 && size < 9999.5) {
    const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
    std::string text = fixed(value, std::max(0, digits - before));
    trim_zeros(text);
    return text;
  }
  std::string text = digits_of(value, std::chars_format::scientific, digits - 1);
  const std::size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  trim_zeros(mantissa);
  return mantissa + "e" + std::to_string(std::stoi(text.substr(e + 1)));
}

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return digits_of(value, std::chars_format::fixed, decimals);
}

}  // namespace quern
