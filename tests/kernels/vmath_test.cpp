// The bounds that src/kernels/level/vmath.hpp states, of the level in use.
#include <cstring>
#include "../../src/kernels/level.hpp"

#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using kernels::Function;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<float> evaluate(Function f, std::vector<float> x) {
  std::vector<float> y(x.size());
  kernels::level().map({{y.data(), 0, false}, {x.data(), 0, false}, {}, f}, 0,
                       static_cast<std::int64_t>(x.size()));
  return y;
}

std::vector<float> sweep(double from, double to, int n = 400'003) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(from + (to - from) * double(i) / double(n - 1));
  return x;
}

/// Numbers whose logarithms are spread evenly, of both signs.
std::vector<float> magnitudes(double smallest, double largest, int n = 100'003) {
  std::vector<float> x;
  for (int i = 0; i < n; ++i) {
    const double a = smallest * std::pow(largest / smallest, double(i) / (n - 1));
    x.push_back(static_cast<float>(i % 2 == 0 ? a : -a));
  }
  return x;
}

/// The largest error in units of the last place of the wanted number (of the smallest normal number below
/// it).
template <class W>
double ulps(const std::vector<float>& x, const std::vector<float>& y, W wanted) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double w = wanted(double(x[i]));
    const double ulp = std::ldexp(1.0, std::ilogb(std::max(std::abs(w), 0x1p-126)) - 23);
    const double error = std::abs(double(y[i]) - w) / ulp;
    worst = reference::worse(worst, error);
  }
  return worst;
}

double ulps(Function f, const std::vector<float>& x, double (*wanted)(double)) {
  return ulps(x, evaluate(f, x), wanted);
}

}  // namespace

TEST_CASE("exp is within 1.5 ulp where the result is normal", "[vmath]") {
  CHECK(ulps(Function::exp, sweep(-87.336, 88.7228), std::exp) < 1.5);
  CHECK(ulps(Function::exp, magnitudes(1e-30, 1), std::exp) < 1.5);
}

TEST_CASE("exp at its ends", "[vmath]") {
  const auto y = evaluate(Function::exp,
                          {-inf, -1e30F, -104, -88, -87.3364F, 0, -0.0F, 88.72283F, 88.7229F, 1e30F, inf});
  CHECK(y[0] == 0);
  CHECK(y[1] == 0);
  CHECK(y[2] == 0);
  CHECK(y[3] == 0);
  CHECK(y[4] >= 0x1p-126F);
  CHECK(y[5] == 1);
  CHECK(y[6] == 1);
  CHECK(y[7] < inf);
  CHECK(y[8] == inf);
  CHECK(y[9] == inf);
  CHECK(y[10] == inf);
}

TEST_CASE("tanh is within 2 ulp and erf within 3, to their limits", "[vmath]") {
  CHECK(ulps(Function::tanh, sweep(-10, 10), std::tanh) < 2);
  CHECK(ulps(Function::tanh, magnitudes(1e-30, 1e30), std::tanh) < 2);
  CHECK(ulps(Function::erf, sweep(-5, 5), std::erf) < 3);
  CHECK(ulps(Function::erf, magnitudes(1e-30, 1e30), std::erf) < 3);
  const float huge = std::numeric_limits<float>::max();
  for (const Function f : {Function::tanh, Function::erf}) {
    const auto y = evaluate(f, {-huge, huge, -0.0F, 0.0F, -inf, inf});
    CHECK(y[0] == -1);
    CHECK(y[1] == 1);
    CHECK((y[2] == 0 && std::signbit(y[2])));
    CHECK((y[3] == 0 && !std::signbit(y[3])));
    if (f == Function::erf) CHECK((y[4] == -1 && y[5] == 1));
    if (f == Function::tanh) CHECK((std::isnan(y[4]) && std::isnan(y[5])));
  }
}

TEST_CASE("erfc keeps its digits in the tail", "[vmath]") {
  // The error of rounding x^2, half an ulp of up to 16 (or 85), is that of the exponent.
  const auto relative = [](double to) {
    const auto x = sweep(0, to);
    const auto y = evaluate(Function::erfc, x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = reference::worse(worst, std::abs(double(y[i]) / std::erfc(double(x[i])) - 1));
    return worst;
  };
  CHECK(relative(4) < 1e-6);
  CHECK(relative(9.1) < 1e-5);
  const auto y = evaluate(Function::erfc, {0, 20, 1e30F, inf});
  CHECK(y[0] == Approx(1).epsilon(1e-6));
  CHECK(y[1] == 0);
  CHECK(y[2] == 0);
  CHECK(y[3] == 0);
}

TEST_CASE("NaN gives NaN, in whole vectors and in the last part", "[vmath]") {
  for (const Function f : {Function::exp, Function::tanh, Function::erf, Function::erfc}) {
    auto x = reference::poison(19);
    std::uint32_t bits = 0xffc01234U;  // a sign and a payload
    std::memcpy(&x[3], &bits, 4);
    for (const float y : evaluate(f, x)) CHECK(std::isnan(y));
  }
}

TEST_CASE("a number's value does not depend on its lane", "[vmath]") {
  const auto x = sweep(-9, 9, 67);
  for (const Function f : {Function::exp, Function::tanh, Function::erf}) {
    const auto y = evaluate(f, x);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(evaluate(f, {x[i]})[0] == y[i]);
  }
}
