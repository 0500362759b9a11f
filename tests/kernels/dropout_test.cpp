#include "quern/kernels/dropout.hpp"

#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

/// dropout(x) + beta * to of (rows,cols) that lie `gap` numbers apart; what lies between stays.
std::vector<float> dropped(const std::vector<float>& x, std::vector<float> to, std::int64_t rows,
                           std::int64_t cols, std::int64_t gap, const Dropout& mask, float beta) {
  std::vector<float> from = x;
  drop({Tensor(to.data(), {rows, cols + gap}).columns(0, cols), beta},
       Tensor(from.data(), {rows, cols + gap}).columns(0, cols), mask);
  return to;
}

}  // namespace

TEST_CASE("drop multiplies by each element's factor, exactly, beside what is there or not") {
  for (const std::int64_t cols : {1, 17, 64, 513, 1100})
    for (const std::int64_t gap : {0, 5})
      for (const float beta : {0.0F, 1.0F}) {
        CAPTURE(cols, gap, beta);
        constexpr std::int64_t rows = 5;
        const Dropout mask(RandomStream(1, 2, 3), 0.3, 7);
        const auto x = normal(rows * (cols + gap), 1);
        const auto there = beta == 0 ? poison(rows * (cols + gap)) : normal(rows * (cols + gap), 2);
        const auto got = dropped(x, there, rows, cols, gap, mask, beta);
        int wrong = 0;
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) {
            const auto i = static_cast<std::size_t>(r * (cols + gap) + c);
            const float y = x[i] * mask.factor(static_cast<std::uint64_t>(r), static_cast<std::uint32_t>(c));
            // With something there the sum may be rounded once or twice.
            wrong += beta == 0 ? got[i] != y : !(std::abs(got[i] - (y + there[i])) <= 1e-6F);
          }
        CHECK(wrong == 0);
        for (std::size_t i = 0; gap > 0 && beta == 1 && i < got.size(); ++i)
          if (static_cast<std::int64_t>(i) % (cols + gap) >= cols) CHECK(got[i] == there[i]);
      }
}

TEST_CASE("drop takes bf16 on either side and rounds what it stores", "[bf16]") {
  const Dropout mask(RandomStream(1, 2, 3), 0.25, 0);
  const auto numbers = normal(3 * 20, 1);
  std::vector<bf16> half(numbers.size()), stored(numbers.size());
  std::vector<float> wide(numbers.size()), wanted = poison(60), to = poison(60);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = to_bf16(numbers[i]), wide[i] = to_float(half[i]);
  const Tensor x16(half.data(), Type::bf16, std::array<std::int64_t, 2>{3, 20}), x(wide.data(), {3, 20}),
      y16(stored.data(), Type::bf16, std::array<std::int64_t, 2>{3, 20});
  drop({Tensor(wanted.data(), {3, 20}), 0}, x, mask);
  drop({Tensor(to.data(), {3, 20}), 0}, x16, mask);
  CHECK(to == wanted);
  for (const Tensor& from : {x16, x}) {
    drop({y16, 0}, from, mask);
    for (std::size_t i = 0; i < stored.size(); ++i) CHECK(stored[i].bits == to_bf16(wanted[i]).bits);
  }
}

TEST_CASE("drop gives the same bits on any number of threads, and skips an empty sink") {
  const Dropout mask(RandomStream(1, 2, 3), 0.5, 0);
  const auto x = normal(300 * 300, 1);
  CHECK(same_on_any_threads([&] { return dropped(x, poison(300 * 300), 300, 300, 0, mask, 0); }));
  std::vector<float> numbers = x;
  drop({}, Tensor(numbers.data(), {300, 300}), mask);
}
