#include "quern/io/tensor_facts.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;
using safetensors::DType;
using safetensors::TensorInfo;
using safetensors::TensorStatistics;
using test::TemporaryDirectory;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::optional<TensorStatistics> statistics_of(DType dtype, const std::vector<T>& values,
                                              std::size_t piece = 1 << 20) {
  const TemporaryDirectory directory;
  Files files;
  File file = files.create(directory / "a.safetensors");
  const auto n = static_cast<std::int64_t>(values.size());
  safetensors::Writer({{"x", dtype, {n}, values.data()}}).write(file);
  file.close();
  const safetensors::Reader reader(files, directory / "a.safetensors");
  CHECK(safetensors::element_count(*reader.find("x")) == values.size());
  return statistics(reader, *reader.find("x"), piece);
}

TensorInfo info(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
  TensorInfo tensor{name, dtype, std::move(shape), 0, 0};
  tensor.end = *safetensors::byte_count(tensor.dtype, tensor.shape);
  return tensor;
}

}  // namespace

TEST_CASE("statistics of a tensor by their definition, in pieces of any size") {
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i)
    values.push_back(100 + std::sin(static_cast<float>(i)) * static_cast<float>(i % 7));
  double sum = 0, squares = 0;
  for (const float x : values) sum += x;
  const double mean = sum / 1000;
  for (const float x : values) squares += (x - mean) * (x - mean);
  for (const std::size_t piece : {8UL, 24UL, 4000UL, 1UL << 20}) {
    const auto found = statistics_of(DType::F32, values, piece);
    REQUIRE(found);
    CAPTURE(piece);
    CHECK(found->min == *std::min_element(values.begin(), values.end()));
    CHECK(found->max == *std::max_element(values.begin(), values.end()));
    CHECK(found->mean == Approx(mean).epsilon(1e-13));                      // a thousand roundings of 1.1e-16
    CHECK(found->std == Approx(std::sqrt(squares / 1000)).epsilon(1e-11));  // 100^2 above the variance
    CHECK(found->nonfinite == 0);
  }
}

TEST_CASE("what is not finite is counted and enters nothing") {
  const auto found = statistics_of<float>(DType::F32, {1, nan_value, 3, inf, -inf, nan_value});
  REQUIRE(found);
  CHECK(found->nonfinite == 4);
  CHECK(found->min == 1);
  CHECK(found->max == 3);
  CHECK(found->mean == 2);
  CHECK(found->std == 1);
  for (const std::vector<float>& values : {std::vector<float>{}, std::vector<float>{nan_value, inf}}) {
    const auto nothing = statistics_of(DType::F32, values);
    REQUIRE(nothing);
    CHECK(nothing->nonfinite == values.size());
    CHECK((std::isnan(nothing->min) && std::isnan(nothing->max)));
    CHECK((std::isnan(nothing->mean) && std::isnan(nothing->std)));
  }
}

TEST_CASE("every plain type is read as what it is") {
  const auto check = [](const std::optional<TensorStatistics>& found, double min, double max) {
    REQUIRE(found);
    CHECK(found->min == min);
    CHECK(found->max == max);
    CHECK(found->mean == (min + max) / 2);
  };
  check(statistics_of<std::uint8_t>(DType::BOOL, {0, 1}), 0, 1);
  check(statistics_of<std::uint8_t>(DType::BOOL, {0, 7}), 0, 1);
  check(statistics_of<std::uint8_t>(DType::U8, {0, 255}), 0, 255);
  check(statistics_of<std::int8_t>(DType::I8, {-128, 127}), -128, 127);
  check(statistics_of<std::uint16_t>(DType::U16, {0, 65535}), 0, 65535);
  check(statistics_of<std::int16_t>(DType::I16, {-32768, 0}), -32768, 0);
  check(statistics_of<std::uint32_t>(DType::U32, {0, 4294967295U}), 0, 4294967295.0);
  check(statistics_of<std::int32_t>(DType::I32, {-5, 3}), -5, 3);
  check(statistics_of<std::uint64_t>(DType::U64, {0, 1ULL << 63}), 0, 0x1p63);
  check(statistics_of<std::int64_t>(DType::I64, {-(1LL << 53), 0}), -0x1p53, 0);
  check(statistics_of<double>(DType::F64, {-1e300, 1e300}), -1e300, 1e300);
  check(statistics_of<std::uint16_t>(DType::BF16, {0x3F80, 0xC040}), -3, 1);
  // binary16: 1, the largest 65504, the smallest subnormal 2^-24, an infinity, a NaN.
  check(statistics_of<std::uint16_t>(DType::F16, {0x3C00, 0x7BFF}), 1, 65504);
  check(statistics_of<std::uint16_t>(DType::F16, {0x8001, 0x0001}), -0x1p-24, 0x1p-24);
  CHECK(statistics_of<std::uint16_t>(DType::F16, {0x7C00, 0xFC00, 0x7E00, 0})->nonfinite == 3);
  CHECK_FALSE(statistics_of<std::uint8_t>(DType::F8_E4M3, {1, 2}));
  CHECK_FALSE(statistics_of<std::uint64_t>(DType::C64, {1, 2}));
}

TEST_CASE("tensors of the same kind in several layers stand together") {
  const auto groups = safetensors::grouped(
      {info("h.0.w", DType::F32, {2, 3}), info("h.10.w", DType::F32, {2, 3}),
       info("h.2.w", DType::F32, {2, 3}), info("h.2.b", DType::F32, {3}), info("h.3.b", DType::BF16, {3}),
       info("wte", DType::F32, {4}), info("h.07.w", DType::F32, {2, 3}), info("3", DType::F32, {})});
  std::vector<std::string> names;
  for (const auto& group : groups) names.push_back(group.name + " " + std::to_string(group.tensors));
  CHECK(names == std::vector<std::string>{"3 1", "h.3.b 1", "h.2.b 1", "h.{0-10}.w 3", "h.07.w 1", "wte 1"});
  CHECK(groups[3].elements == 18);
  CHECK(groups[3].shape == std::vector<std::int64_t>{2, 3});
  CHECK(groups[0].elements == 1);
}

TEST_CASE("a part of a tensor is read, and nothing beside it") {
  const TemporaryDirectory directory;
  Files files;
  const std::vector<std::uint8_t> bytes = {1, 2, 3, 4, 5}, other = {9, 9, 9};
  File file = files.create(directory / "a.safetensors");
  safetensors::Writer({{"a", DType::U8, {5}, bytes.data()}, {"b", DType::U8, {3}, other.data()}}).write(file);
  const safetensors::Reader reader(files, directory / "a.safetensors");
  std::uint8_t two[2] = {0, 0};
  reader.read_part(*reader.find("a"), 3, two, 2);
  CHECK((two[0] == 4 && two[1] == 5));
  CHECK_THROWS_AS(reader.read_part(*reader.find("a"), 4, two, 2), Bug);
  CHECK_THROWS_AS(reader.read_part(*reader.find("a"), 6, two, 0), Bug);
}
