#include "reference/activation.hpp"

#include "quern/kernels/activation.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

constexpr Activation all[] = {Activation::gelu, Activation::gelu_erf, Activation::relu, Activation::relu2,
                              Activation::silu};
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float huge = std::numeric_limits<float>::max();

std::vector<float> forward(std::vector<float> x, Activation kind) {
  std::vector<float> y = poison(static_cast<std::int64_t>(x.size()));
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  activation_forward({y.data(), {1, n}}, {x.data(), {1, n}}, kind);
  return y;
}

/// f' of every x.
std::vector<float> slope(std::vector<float> x, Activation kind) {
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  std::vector<float> dx = poison(n), dy(x.size(), 1.0F);
  activation_backward({dx.data(), {1, n}}, {}, {dy.data(), {1, n}}, {x.data(), {1, n}}, kind);
  return dx;
}

std::vector<float> sweep() {
  std::vector<float> x;
  for (int i = -200'000; i <= 200'000; ++i) x.push_back(static_cast<float>(i) * 1e-4F);
  return x;
}

}  // namespace

TEST_CASE("activations over a dense sweep", "[activation]") {
  // exp's argument 2u is rounded to half an ulp; |2u| < 32 where the result is not negligible, so exp errs by
  // 2e-6 of itself, and for x < 0 so does the result; above 0 the error is that of the last digits of x.
  const auto x = sweep();
  for (const Activation kind : all) {
    const auto y = forward(x, kind), dx = slope(x, kind);
    double worst = 0, worst_slope = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Dual wanted = activation(Dual(double(x[i]), 1), kind);
      const auto error = [](float got, double exact) {
        return std::abs(double(got) - exact) / std::max(1.0, std::abs(exact));
      };
      worst = worse(worst, error(y[i], wanted.value));
      worst_slope = worse(worst_slope, error(dx[i], wanted.slope));
    }
    CAPTURE(static_cast<int>(kind));
    CHECK(worst < 2e-7);
    CHECK(worst_slope < 5e-7);
  }
}

TEST_CASE("the negative tail keeps its digits", "[activation]") {
  // x / 2 * (1 + tanh(u)) would be 0 or wrong in its first digit below -5.
  for (const float x : {-3.0F, -5.0F, -6.5F, -8.0F})
    for (const Activation kind : {Activation::gelu, Activation::gelu_erf})
      CHECK(forward({x}, kind)[0] == Approx(activation(double(x), kind)).epsilon(2e-5).margin(1e-37));
}

TEST_CASE("activations are finite everywhere, to the ends of the finite numbers", "[activation]") {
  CHECK(forward({-huge, -1, 3}, Activation::relu2) == std::vector<float>{0, 0, 9});
  for (const Activation kind : all) {
    if (kind == Activation::relu2) continue;  // a square does not stay finite
    const auto y = forward({-huge, -1e20F, -100, 100, 1e20F, huge}, kind);
    const auto d = slope({-huge, -1e20F, -100, 100, 1e20F, huge}, kind);
    for (std::size_t i = 0; i < 3; ++i) CHECK((std::abs(y[i]) < 1e-30F && std::abs(d[i]) < 1e-30F));
    for (std::size_t i = 3; i < 6; ++i) CHECK(d[i] == 1);
    CHECK(y[3] == 100);
    CHECK(y[4] == 1e20F);
    CHECK(y[5] == huge);
  }
}

TEST_CASE("a NaN and an infinity are nowhere taken for a number, not even where the limit is 0",
          "[activation]") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf}) {
    CAPTURE(bad);
    for (const Activation kind : all) {
      CAPTURE(static_cast<int>(kind));
      std::vector<float> x(17, 0.5F), y = poison(17);
      x[0] = x[16] = bad;  // in a whole vector, and in the part at the end
      const auto f = forward(x, kind);
      CHECK((!std::isfinite(f[0]) && std::isfinite(f[1]) && std::isfinite(f[15]) && !std::isfinite(f[16])));
      std::vector<float> dx = poison(17), dy(17, 1.0F);  // backward makes the same
      activation_backward({dx.data(), {1, 17}}, {y.data(), {1, 17}}, {dy.data(), {1, 17}},
                          {x.data(), {1, 17}}, kind);
      CHECK((!std::isfinite(y[0]) && !std::isfinite(y[16])));
    }
    for (const Activation kind : {Activation::swiglu, Activation::geglu})
      for (const std::vector<float>& gate_and_value : {std::vector<float>{bad, 0.5F}, {0.5F, bad}}) {
        std::vector<float> pre = gate_and_value, y = poison(1);
        activation_forward({y.data(), {1, 1}}, {pre.data(), {1, 2}}, kind);
        CHECK_FALSE(std::isfinite(y[0]));
      }
    std::vector<float> x = {bad};
    tanh_forward({x.data(), {1, 1}}, {x.data(), {1, 1}});
    CHECK(std::isnan(x[0]));
  }
}

TEST_CASE("activation backward against dual numbers, with and without y", "[activation]") {
  for (const Activation kind : all) {
    for (const std::int64_t n : {1, 17, 64, 513}) {
      auto x = normal(2 * n, 1, 2), dy = normal(2 * n, 2);
      auto dx = poison(2 * n), y = poison(2 * n);
      std::vector<double> wanted(x.size()), value(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Dual f = activation(Dual(double(x[i]), 1), kind);
        value[i] = f.value;
        wanted[i] = f.slope * double(dy[i]);
      }
      activation_backward({dx.data(), {2, n}}, {y.data(), {2, n}}, {dy.data(), {2, n}}, {x.data(), {2, n}},
                          kind);
      CHECK(relative_error(dx, wanted, 1) < 1e-6);
      CHECK(relative_error(y, value, 1) < 1e-6);
      activation_backward({dy.data(), {2, n}}, {x.data(), {2, n}}, {dy.data(), {2, n}}, {x.data(), {2, n}},
                          kind);
      CHECK(dy == dx);  // in place
      CHECK(x == y);
    }
  }
}

TEST_CASE("tanh against dual numbers, overwriting and adding, in place, on columns of a wider tensor",
          "[activation]") {
  for (const std::int64_t n : {1, 17, 64, 513}) {
    auto x = normal(2 * n, 1, 2), dy = normal(2 * n, 2), y = poison(2 * n), dx = poison(2 * n);
    std::vector<double> value, wanted, added;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Dual f = reference::tanh(Dual(double(x[i]), 1));
      value.push_back(f.value);
      wanted.push_back(f.slope * double(dy[i]));
      added.push_back(wanted.back() + double(x[i]));
    }
    const Tensor X(x.data(), {2, n}), Y(y.data(), {2, n}), D(dy.data(), {2, n});
    tanh_forward(Y, X);
    tanh_backward({{dx.data(), {2, n}}, 0}, D, Y);
    CHECK(relative_error(y, value, 1) < 3e-7);    // 2 ulp
    CHECK(relative_error(dx, wanted, 1) < 1e-6);  // 1 - y^2 has twice y's error, and three roundings
    auto wide = normal(2 * (n + 5), 3);
    const auto before = wide;
    const Tensor part = Tensor(wide.data(), {2, n + 5}).columns(2, n);
    tanh_backward({part, 0}, D, Y);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const std::size_t r = i / std::size_t(n + 5), c = i % std::size_t(n + 5);
      const bool inside = c >= 2 && c < std::size_t(n) + 2;
      CHECK(wide[i] == (inside ? dx[r * std::size_t(n) + c - 2] : before[i]));
    }
    tanh_backward({X, 1}, D, Y);
    CHECK(relative_error(x, added, 1) < 1e-6);
    tanh_backward({D, 0}, D, Y);
    CHECK(dy == dx);
    tanh_backward({}, D, Y);
  }
  const auto x = normal(100'003, 5, 3);
  CHECK(same_on_any_threads([&] {
    auto y = x, dx = x;
    const Tensor Y(y.data(), {1, 100'003});
    tanh_forward(Y, Y);
    tanh_backward({{dx.data(), {1, 100'003}}, 1}, Y, Y);
    return dx;
  }));
}

TEST_CASE("gated activations against dual numbers, forward and backward", "[activation]") {
  for (const Activation kind : {Activation::swiglu, Activation::geglu})
    for (const std::int64_t F : {1, 17, 64, 513}) {
      auto pre = normal(2 * 2 * F, 1, 2), dy = normal(2 * F, 2);
      auto y = poison(2 * F), again = y, dpre = poison(2 * 2 * F);
      std::vector<double> value, wanted(pre.size());
      for (std::size_t i = 0; i < dy.size(); ++i) {
        const std::size_t n = static_cast<std::size_t>(F), gate = i / n * 2 * n + i % n;
        const Dual by_gate = gated(Dual(double(pre[gate]), 1), Dual(double(pre[gate + n])), kind);
        const Dual by_value = gated(Dual(double(pre[gate])), Dual(double(pre[gate + n]), 1), kind);
        value.push_back(by_gate.value);
        wanted[gate] = by_gate.slope * double(dy[i]);
        wanted[gate + n] = by_value.slope * double(dy[i]);
      }
      const Tensor x(pre.data(), {2, 2 * F}), dx(dpre.data(), {2, 2 * F}), d(dy.data(), {2, F});
      activation_forward({y.data(), {2, F}}, x, kind);
      activation_backward(dx, {again.data(), {2, F}}, d, x, kind);
      CAPTURE(F, static_cast<int>(kind));
      CHECK(relative_error(y, value, 1) < 1e-6);
      CHECK(again == y);
      CHECK(relative_error(dpre, wanted, 1) < 1e-6);
      const auto first = dpre;
      activation_backward(dx, d, d, x, kind);  // y in the place of dy
      CHECK(dy == y);
      CHECK(dpre == first);
    }
}

TEST_CASE("activations on columns of a wider tensor", "[activation]") {
  auto wide = normal(5 * 40, 3), narrow = normal(5 * 17, 4);
  const auto before = wide;
  const Tensor part = Tensor(wide.data(), {5, 40}).columns(10, 17);
  activation_forward(part, {narrow.data(), {5, 17}}, Activation::gelu);
  const auto wanted = forward(narrow, Activation::gelu);
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 40; ++c)
      CHECK(wide[r * 40 + c] == (c < 10 || c >= 27 ? before[r * 40 + c] : wanted[r * 17 + c - 10]));
}

TEST_CASE("activations have the same bits on any number of threads", "[activation]") {
  const std::int64_t n = 100'003;
  const auto x = normal(n, 5, 3), dy = normal(n, 6);
  for (const Activation kind : all) {
    CHECK(same_on_any_threads([&] { return forward(x, kind); }));
    CHECK(same_on_any_threads([&] { return slope(x, kind); }));
  }
  auto pre = normal(300 * 2 * 111, 7);
  CHECK(same_on_any_threads([&] {
    auto y = poison(300 * 111);
    activation_forward({y.data(), {300, 111}}, {pre.data(), {300, 2 * 111}}, Activation::swiglu);
    return y;
  }));
}
