#include "quern/io/tensor_facts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <tuple>

#include "quern/base/bf16.hpp"
#include "quern/base/check.hpp"

namespace quern::safetensors {
namespace {

struct Half {
  std::uint16_t bits;
};

struct Truth {
  std::uint8_t byte;
};

/// IEEE 754 binary16: (-1)^s 2^(e - 15) (1 + m / 1024), subnormal below e = 1.
double to_double(Half half) {
  const int exponent = (half.bits >> 10) & 0x1F;
  const double fraction = (half.bits & 0x3FF) / 1024.0;
  const double sign = (half.bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1F) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
}
double to_double(bf16 value) { return to_float(value); }
double to_double(Truth value) { return value.byte != 0 ? 1 : 0; }
template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}

/// The values that came so far: their mean and the sum of squared distances from it (Chan, Golub & LeVeque
/// 1983: pieces are joined by n, mean and that sum).
struct Moments {
  double n = 0, mean = 0, squares = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void join(std::span<const double> values) {
    if (values.empty()) return;
    const auto m = static_cast<double>(values.size());
    double sum = 0, around = 0;
    for (const double x : values) {
      sum += x;
      min = std::min(min, x);
      max = std::max(max, x);
    }
    const double here = sum / m;
    for (const double x : values) around += (x - here) * (x - here);
    const double step = here - mean;
    squares += around + step * step * n * m / (n + m);
    mean += step * m / (n + m);
    n += m;
  }
};

template <class T>
TensorStatistics statistics_as(const Reader& reader, const TensorInfo& tensor, std::size_t piece) {
  TensorStatistics found;
  Moments moments;
  std::vector<char> bytes;
  std::vector<double> values;  // the finite ones of a piece
  for (std::uint64_t at = 0; at < tensor.bytes(); at += bytes.size()) {
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece, tensor.bytes() - at)));
    reader.read_part(tensor, at, bytes.data(), bytes.size());
    values.clear();
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
      T element;
      std::memcpy(&element, bytes.data() + i, sizeof element);
      const double value = to_double(element);
      if (std::isfinite(value)) {
        values.push_back(value);
      } else {
        ++found.nonfinite;
      }
    }
    moments.join(values);
  }
  if (moments.n == 0) return found;
  found.min = moments.min;
  found.max = moments.max;
  found.mean = moments.mean;
  found.std = std::sqrt(moments.squares / moments.n);
  return found;
}

/// Without a zero before other digits: the number has no other form.
bool is_number(std::string_view part) {
  return !part.empty() && part.size() <= 9 && (part == "0" || part[0] != '0') &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

constexpr const char* kNumber = "\n";  // no tensor's name holds one

/// A name's parts between dots, and the numbers among them.
struct Pattern {
  std::vector<std::string> parts;  // kNumber for a number
  std::vector<int> numbers;
};

Pattern pattern_of(std::string_view name) {
  Pattern pattern;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string part(name.substr(0, dot));
    if (is_number(part)) pattern.numbers.push_back(std::stoi(part));
    pattern.parts.push_back(is_number(part) ? kNumber : part);
    if (dot == std::string_view::npos) return pattern;
    name.remove_prefix(dot + 1);
  }
}

struct Gathered {
  std::vector<int> low, high;  // of each number in the name
  std::uint64_t tensors = 0, elements = 0;

  void add(const TensorInfo& tensor, const std::vector<int>& numbers) {
    if (tensors == 0) low = high = numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      low[i] = std::min(low[i], numbers[i]);
      high[i] = std::max(high[i], numbers[i]);
    }
    ++tensors;
    elements += element_count(tensor);
  }
};

std::string name_of(const std::vector<std::string>& parts, const Gathered& all) {
  std::string name;
  std::size_t number = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) name += '.';
    if (parts[i] != kNumber) {
      name += parts[i];
      continue;
    }
    const std::string low = std::to_string(all.low[number]), high = std::to_string(all.high[number]);
    name += low == high ? low : "{" + low + "-" + high + "}";
    ++number;
  }
  return name;
}

}  // namespace

std::uint64_t element_count(const TensorInfo& tensor) {
  return tensor.bytes() * 8 / static_cast<std::uint64_t>(bits(tensor.dtype));
}

std::optional<TensorStatistics> statistics(const Reader& reader, const TensorInfo& tensor,
                                           std::size_t piece) {
  QUERN_CHECK(piece > 0 && piece % 8 == 0, piece);
  switch (tensor.dtype) {
    case DType::BOOL: return statistics_as<Truth>(reader, tensor, piece);
    case DType::U8: return statistics_as<std::uint8_t>(reader, tensor, piece);
    case DType::I8: return statistics_as<std::int8_t>(reader, tensor, piece);
    case DType::U16: return statistics_as<std::uint16_t>(reader, tensor, piece);
    case DType::I16: return statistics_as<std::int16_t>(reader, tensor, piece);
    case DType::U32: return statistics_as<std::uint32_t>(reader, tensor, piece);
    case DType::I32: return statistics_as<std::int32_t>(reader, tensor, piece);
    case DType::U64: return statistics_as<std::uint64_t>(reader, tensor, piece);
    case DType::I64: return statistics_as<std::int64_t>(reader, tensor, piece);
    case DType::F16: return statistics_as<Half>(reader, tensor, piece);
    case DType::BF16: return statistics_as<bf16>(reader, tensor, piece);
    case DType::F32: return statistics_as<float>(reader, tensor, piece);
    case DType::F64: return statistics_as<double>(reader, tensor, piece);
    default: return std::nullopt;
  }
}

std::vector<TensorGroup> grouped(const std::vector<TensorInfo>& tensors) {
  std::map<std::tuple<std::vector<std::string>, DType, std::vector<std::int64_t>>, Gathered> groups;
  for (const TensorInfo& tensor : tensors) {
    const Pattern pattern = pattern_of(tensor.name);
    groups[{pattern.parts, tensor.dtype, tensor.shape}].add(tensor, pattern.numbers);
  }
  std::vector<TensorGroup> found;
  for (const auto& [key, all] : groups) {
    const auto& [parts, dtype, shape] = key;
    found.push_back({name_of(parts, all), dtype, shape, all.tensors, all.elements});
  }
  return found;
}

}  // namespace quern::safetensors
