#include "quern/kernels/elementwise.hpp"

#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

TEST_CASE("fill and add_scaled", "[elementwise]") {
  for (const std::int64_t n : {1, 17, 64, 513, 50'001}) {
    auto to = poison(n), x = normal(n, 1);
    fill({to.data(), {n}}, 2.5F);
    CHECK(to == std::vector<float>(to.size(), 2.5F));
    to = poison(n);
    add_scaled({{to.data(), {n}}, 0}, {x.data(), {n}}, 1);
    CHECK(to == x);
    add_scaled({{to.data(), {n}}, 1}, {x.data(), {n}}, 2);
    std::vector<double> wanted = widen(x);
    for (double& w : wanted) w *= 3;
    CHECK(relative_error(to, wanted) < 2e-7);
    add_scaled({{x.data(), {n}}, 0}, {x.data(), {n}}, 3);  // in place
    CHECK(relative_error(x, wanted) < 2e-7);
  }
}

TEST_CASE("only the columns of a view change", "[elementwise]") {
  auto wide = normal(6 * 30, 2), x = normal(6 * 11, 3);
  const auto before = wide;
  const Tensor part = Tensor(wide.data(), {2, 3, 30}).columns(5, 11);
  add_scaled({part, 1}, {x.data(), {2, 3, 11}}, 1);
  for (std::size_t r = 0; r < 6; ++r)
    for (std::size_t c = 0; c < 30; ++c) {
      const bool inside = c >= 5 && c < 16;
      CHECK(wide[r * 30 + c] == before[r * 30 + c] + (inside ? x[r * 11 + c - 5] : 0));
    }
  fill(part, 0);
  for (std::size_t r = 0; r < 6; ++r)
    for (std::size_t c = 0; c < 30; ++c)
      CHECK(wide[r * 30 + c] == (c >= 5 && c < 16 ? 0 : before[r * 30 + c]));
}

TEST_CASE("add_scaled has the same bits on any number of threads", "[elementwise]") {
  const auto x = normal(70'001, 4);
  CHECK(same_on_any_threads([&] {
    auto to = normal(70'001, 5), in = x;
    add_scaled({{to.data(), {70'001}}, 0.5F}, {in.data(), {70'001}}, 3);
    return to;
  }));
}
