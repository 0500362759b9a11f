#include "quern/kernels/reduce.hpp"

#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

std::vector<float> column_sums(std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                               std::vector<float> start, float beta) {
  auto scratch = poison(std::int64_t(column_sum_scratch(rows, cols)));
  column_sum({{start.data(), {cols}}, beta}, {x.data(), {rows, cols}}, scratch);
  return start;
}

}  // namespace

TEST_CASE("sum of squares, in double", "[reduce]") {
  for (const std::int64_t n : {0, 1, 17, 64, 513, 200'003}) {
    const auto x = normal(n, 1);
    double wanted = 0;
    for (const float v : x) wanted += double(v) * double(v);
    CHECK(sum_of_squares(x.data(), n) ==
          Approx(wanted).epsilon(1e-12));  // squares are exact, sums round at 1e-16
  }
  const std::vector<float> large(3, 1e30F);  // whose squares are no floats
  CHECK(sum_of_squares(large.data(), 3) == Approx(3e60).epsilon(1e-6));
}

TEST_CASE("sum of squares has the same bits on any number of threads", "[reduce]") {
  const auto x = normal(200'003, 2);
  CHECK(same_on_any_threads(
      [&] { return std::vector<double>{sum_of_squares(x.data(), std::int64_t(x.size()))}; }));
}

TEST_CASE("column sums", "[reduce]") {
  // Float sums of up to a few hundred numbers of size 1, whose sum is about the root of their count.
  for (const std::int64_t cols : {1, 17, 64, 513}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 501}) {
      auto x = normal(rows * cols, 3);
      const auto start = normal(cols, 4);
      std::vector<double> wanted(std::size_t(cols), 0.0), added = widen(start);
      for (std::size_t i = 0; i < x.size(); ++i) {
        wanted[i % std::size_t(cols)] += double(x[i]);
        added[i % std::size_t(cols)] += double(x[i]);
      }
      CHECK(relative_error(column_sums(x, rows, cols, poison(cols), 0), wanted, 1) < 2e-6);
      CHECK(relative_error(column_sums(x, rows, cols, start, 1), added, 1) < 2e-6);
    }
  }
}

TEST_CASE("column sums of rows that lie apart, on any number of threads", "[reduce]") {
  auto wide = normal(3000 * 30, 5);
  const Tensor part = Tensor(wide.data(), {3000, 30}).columns(4, 20);
  std::vector<double> wanted(20);
  for (std::size_t r = 0; r < 3000; ++r)
    for (std::size_t c = 0; c < 20; ++c) wanted[c] += double(wide[r * 30 + 4 + c]);
  const auto run = [&] {
    auto out = poison(20), scratch = poison(std::int64_t(column_sum_scratch(3000, 20)));
    column_sum({{out.data(), {20}}, 0}, part, scratch);
    return out;
  };
  CHECK(relative_error(run(), wanted) < 5e-6);
  CHECK(same_on_any_threads(run));
}

TEST_CASE("the first number that is not finite", "[reduce]") {
  auto x = normal(100'003, 6);
  x[50] = 3e38F;
  const std::int64_t n = std::int64_t(x.size());
  CHECK(first_nonfinite(x.data(), 0) == -1);
  CHECK(first_nonfinite(x.data(), n) == -1);
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t place :
       {std::int64_t{100'002}, std::int64_t{70'000}, std::int64_t{511}, std::int64_t{0}}) {
    for (const float bad : {inf, -inf, std::nanf("")}) {
      x[std::size_t(place)] = bad;
      CHECK(first_nonfinite(x.data(), n) == place);
      CHECK(first_nonfinite(x.data(), place) == -1);
    }
  }
}
