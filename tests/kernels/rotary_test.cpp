#include "reference/rotary.hpp"

#include "quern/kernels/rotary.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

// A rounding of the cosine and the sine, two products and a sum: 4 half ulps of 6e-8; the norm's sum over a
// head adds some ten of them.
constexpr double tolerance = 1e-6;

namespace {

constexpr float eps = 1e-5F;
constexpr std::int64_t B = 2, T = 3, first = 41;

struct Case {
  std::int64_t H, D;
  bool norm, turns;
  double theta = 10000;
  std::vector<float> x, gain, dy, table, rstd;

  Case(std::int64_t H_, std::int64_t D_, bool norm_, bool turns_)
      : H(H_), D(D_), norm(norm_), turns(turns_), x(normal(B * T * H * D, 1)), dy(normal(B * T * H * D, 3)) {
    if (norm) gain = normal(D, 2);
    rstd = poison(B * T * H);
    table = poison(T * D);
    if (turns) rotary_table({table.data(), {T, D}}, first, theta);
  }

  Tensor view(std::vector<float>& v) const { return {v.data(), {B, T, H * D}}; }
  Tensor turned() { return turns ? Tensor(table.data(), {T, D}) : Tensor(); }
  const float* gains() const { return norm ? gain.data() : nullptr; }
  float* stds() { return norm ? rstd.data() : nullptr; }

  template <class N>
  std::vector<N> wanted(const std::vector<N>& at, const std::vector<N>& gains) const {
    return rotary(at, gains, std::size_t(D), std::size_t(H), std::size_t(T), std::size_t(first),
                  turns ? theta : 0, eps);
  }
  std::vector<float> forward() {
    std::vector<float> y = poison(B * T * H * D);
    rotary_forward(view(y), view(x), turned(), gains(), stds(), eps, H);
    return y;
  }
  /// dx, then dgain.
  std::vector<float> backward(float beta, std::vector<float> dx, std::vector<float> dgain) {
    auto scratch = poison(std::int64_t(rotary_backward_scratch(B * T, H * D, D)));
    rotary_backward({view(dx), beta}, norm ? Sink{{dgain.data(), {D}}, beta} : Sink(), view(dy),
                    norm ? view(x) : Tensor(), turned(), gains(), stds(), H, scratch);
    if (norm) dx.insert(dx.end(), dgain.begin(), dgain.end());
    return dx;
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t D : {1, 2, 6, 17, 20, 32, 64, 128, 256})
    for (const bool norm : {false, true})
      for (const bool turns : {false, true})
        if ((norm || turns) && (D % 2 == 0 || !turns)) all.emplace_back(D > 64 ? 1 : 3, D, norm, turns);
  return all;
}

}  // namespace

TEST_CASE("heads normalised and turned against the reference", "[rotary]") {
  for (Case& c : cases()) {
    CAPTURE(c.D, c.norm, c.turns);
    CHECK(relative_error(c.forward(), c.wanted(widen(c.x), widen(c.gain))) < tolerance);
  }
}

TEST_CASE("rotary backward against dual numbers", "[rotary]") {
  for (Case& c : cases()) {
    if (c.D > 64) continue;
    CAPTURE(c.D, c.norm, c.turns);
    c.forward();
    std::vector<float> all = c.x;
    all.insert(all.end(), c.gain.begin(), c.gain.end());
    const auto wanted = gradient(all, [&](const std::vector<Dual>& in) {
      const auto end = in.begin() + std::ptrdiff_t(c.x.size());
      return weighted(c.dy, c.wanted(std::vector<Dual>(in.begin(), end), std::vector<Dual>(end, in.end())));
    });
    CHECK(relative_error(c.backward(0, poison(B * T * c.H * c.D), poison(c.D)), wanted, 1) < 5 * tolerance);
    std::vector<float> dx = normal(B * T * c.H * c.D, 7), dgain = normal(c.D, 8);
    std::vector<double> more = wanted;
    for (std::size_t i = 0; i < more.size(); ++i)
      more[i] += double(i < dx.size() ? dx[i] : dgain[i - dx.size()]);
    CHECK(relative_error(c.backward(1, dx, dgain), more, 1) < 5 * tolerance);
  }
}

TEST_CASE("a rotation keeps lengths, and scores depend on distances alone", "[rotary]") {
  const std::int64_t D = 64;
  auto q = normal(D, 1), k = normal(D, 2);
  const auto turned = [&](std::vector<float>& x, std::int64_t position) {
    std::vector<float> table(64), y = poison(64);
    rotary_table({table.data(), {1, D}}, position, 10000);
    rotary_forward({y.data(), {1, 1, D}}, {x.data(), {1, 1, D}}, {table.data(), {1, D}}, nullptr, nullptr, 0,
                   1);
    return y;
  };
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    double total = 0;
    for (std::size_t i = 0; i < a.size(); ++i) total += double(a[i]) * double(b[i]);
    return total;
  };
  CHECK(turned(q, 0) == q);
  CHECK(dot(turned(q, 100'000), turned(q, 100'000)) == Approx(dot(q, q)).epsilon(1e-6));
  const double near = dot(turned(q, 12), turned(k, 5));
  CHECK(near != Approx(dot(q, k)).epsilon(1e-3));
  for (const std::int64_t by :
       {1, 1000, 1'000'000})  // angles are made in double, their functions rounded once
    CHECK(dot(turned(q, 12 + by), turned(k, 5 + by)) == Approx(near).margin(1e-5));
}

TEST_CASE("rotary reads columns of a packed projection and writes into them", "[rotary]") {
  Case c(2, 6, true, true);
  const auto y = c.forward();
  auto packed = poison(B * T * 40);
  const Tensor part = Tensor(packed.data(), {B, T, 40}).columns(9, 12);
  for (std::size_t r = 0; r < B * T; ++r) std::copy_n(&c.x[r * 12], 12, &packed[r * 40 + 9]);
  std::vector<float> again = poison(B * T * 12);
  rotary_forward(c.view(again), part, c.turned(), c.gains(), c.stds(), eps, c.H);
  CHECK(again == y);
  const auto wanted = c.backward(0, poison(B * T * 12), poison(6));
  auto gradients = poison(B * T * 40);
  const Tensor to = Tensor(gradients.data(), {B, T, 40}).columns(9, 12);
  rotary_backward({to, 0}, {}, c.view(c.dy), part, c.turned(), c.gains(), c.stds(), c.H, {});
  for (std::size_t r = 0; r < B * T; ++r)
    for (std::size_t j = 0; j < 40; ++j)
      CHECK((j < 9 || j >= 21 ? std::isnan(gradients[r * 40 + j])
                              : gradients[r * 40 + j] == wanted[r * 12 + j - 9]));
  // The gain's gradient alone.
  auto dgain = poison(6), scratch = poison(std::int64_t(rotary_backward_scratch(B * T, 12, 6)));
  rotary_backward({}, {{dgain.data(), {6}}, 0}, c.view(c.dy), part, c.turned(), c.gains(), c.stds(), c.H,
                  scratch);
  CHECK(std::equal(dgain.begin(), dgain.end(), wanted.end() - 6));
}

TEST_CASE("rotary has the same bits on any number of threads", "[rotary]") {
  const std::int64_t rows = 900, D = 20, H = 3;
  auto x = normal(rows * H * D, 1), gain = normal(D, 2), dy = normal(rows * H * D, 3),
       table = poison(rows * D);
  rotary_table({table.data(), {rows, D}}, 0, 10000);
  const auto view = [&](std::vector<float>& v) { return Tensor(v.data(), {1, rows, H * D}); };
  std::vector<float> rstd = poison(rows * H);
  CHECK(same_on_any_threads([&] {
    auto y = poison(rows * H * D);
    rotary_forward(view(y), view(x), {table.data(), {rows, D}}, gain.data(), rstd.data(), eps, H);
    return y;
  }));
  CHECK(same_on_any_threads([&] {
    auto dx = poison(rows * H * D), dgain = poison(D), scratch = poison(64 * D);
    rotary_backward({view(dx), 0}, {{dgain.data(), {D}}, 0}, view(dy), view(x), {table.data(), {rows, D}},
                    gain.data(), rstd.data(), H, scratch);
    dx.insert(dx.end(), dgain.begin(), dgain.end());
    return dx;
  }));
}
