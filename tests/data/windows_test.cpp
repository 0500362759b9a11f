#include "quern/data/windows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "catch.hpp"
#include "error_of.hpp"

using namespace quern;

namespace {

std::vector<std::int32_t> counting(std::int64_t n) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TokenView all(const std::vector<std::int32_t>& tokens) { return TokenView(std::span(tokens)); }

}  // namespace

TEST_CASE("targets are the inputs' successors; a batch knows its rows", "[data]") {
  const auto tokens = counting(100);
  for (const WindowOrder order : {WindowOrder::random, WindowOrder::shuffle}) {
    WindowSampler sampler(all(tokens), 7, order, 3, 8);
    const Batch batch = sampler.batch(5, 2, 4);
    CHECK(batch.rows == 4);
    CHECK(batch.length == 7);
    CHECK(batch.first_row == 2);
    CHECK(batch.target_tokens == 28);
    for (int row = 0; row < 4; ++row) {
      for (int t = 0; t < 7; ++t) {
        CHECK(batch.inputs[row * 7 + t] == sampler.start(5, 2 + row) + t);
        CHECK(batch.targets[row * 7 + t] == batch.inputs[row * 7 + t] + 1);
      }
    }
    const std::int32_t* buffer = sampler.batch(6, 0, 8).inputs;
    CHECK(sampler.batch(7, 0, 8).inputs == buffer);  // kept once it is large enough
    CHECK(sampler.batch(8, 4, 1).inputs == buffer);
  }
}

TEST_CASE("any division of a step's rows gives the same windows, in any order of asking", "[data]") {
  const auto tokens = counting(1000);
  for (const WindowOrder order : {WindowOrder::random, WindowOrder::shuffle}) {
    WindowSampler whole(all(tokens), 16, order, 42, 8);
    WindowSampler parts(all(tokens), 16, order, 42, 8);
    for (const std::int64_t step : {0, 1, 2, 77, 3, 1000000}) {
      const Batch batch = whole.batch(step, 0, 8);
      const std::vector<std::int32_t> inputs(batch.inputs, batch.inputs + 8 * 16);
      const std::vector<std::int32_t> targets(batch.targets, batch.targets + 8 * 16);
      for (const std::int64_t rows : {1, 2, 4}) {
        for (std::int64_t first = 8 - rows; first >= 0; first -= rows) {
          const Batch part = parts.batch(step, first, rows);
          CHECK(std::equal(part.inputs, part.inputs + rows * 16, inputs.begin() + first * 16));
          CHECK(std::equal(part.targets, part.targets + rows * 16, targets.begin() + first * 16));
        }
      }
    }
    WindowSampler other(all(tokens), 16, order, 43, 8);
    int same = 0;
    for (int row = 0; row < 8; ++row) same += whole.start(0, row) == other.start(0, row);
    CHECK(same < 8);
  }
}

TEST_CASE("a text of T + 1 tokens has one window in both orders", "[data]") {
  const auto tokens = counting(65);
  for (const WindowOrder order : {WindowOrder::random, WindowOrder::shuffle}) {
    WindowSampler sampler(all(tokens), 64, order, 1, 4);
    CHECK(sampler.windows_per_epoch() == 1);
    for (int step = 0; step < 50; ++step) {
      for (int row = 0; row < 4; ++row) CHECK(sampler.start(step, row) == 0);
    }
    CHECK_THROWS_AS(WindowSampler(all(tokens), 65, order, 1, 4), Bug);
    CHECK_THROWS_AS(sampler.batch(0, 3, 2), Bug);
  }
}

TEST_CASE("random starts are uniform over every place, ends included", "[data]") {
  const auto tokens = counting(20);
  const WindowSampler sampler(all(tokens), 10, WindowOrder::random, 9, 10);
  std::vector<double> count(10);
  for (int step = 0; step < 1000; ++step) {
    for (int row = 0; row < 10; ++row) ++count.at(static_cast<std::size_t>(sampler.start(step, row)));
  }
  // 10,000 draws of 10 places: each count is 1,000 with a standard deviation of sqrt(10000 * 0.1 * 0.9) = 30.
  for (const double c : count) CHECK(std::abs(c - 1000) < 5 * 30);
}

TEST_CASE("shuffle takes every window once an epoch and leaves fewer than T targets out", "[data]") {
  for (const std::int64_t n : {65, 66, 100, 128, 129, 130, 1000}) {
    for (const std::int64_t length : {1, 5, 8, 63, 64}) {
      const auto tokens = counting(n);
      const std::int64_t rows = 3;
      WindowSampler sampler(all(tokens), length, WindowOrder::shuffle, 11, rows);
      const std::int64_t windows = (n - 1) / length;
      REQUIRE(sampler.windows_per_epoch() == windows);
      for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
        std::vector<std::int64_t> starts;
        for (std::int64_t i = epoch * windows; i < (epoch + 1) * windows; ++i) {
          starts.push_back(sampler.start(i / rows, i % rows));
        }
        std::sort(starts.begin(), starts.end());
        CHECK(starts.front() >= 0);
        CHECK(starts.back() + length <= n - 1);
        bool spaced = true;
        for (std::size_t i = 1; i < starts.size(); ++i)
          spaced = spaced && starts[i] == starts[i - 1] + length;
        CHECK(spaced);
      }
    }
  }
}

TEST_CASE("shuffle reaches every target over the epochs, in another order each", "[data]") {
  const auto tokens = counting(1 + 10 * 8 + 5);  // ten windows of 8 and a rest of 5
  const WindowSampler sampler(all(tokens), 8, WindowOrder::shuffle, 5, 10);
  std::set<std::int64_t> seen;
  std::set<std::vector<std::int64_t>> orders;
  for (int step = 0; step < 60; ++step) {  // an epoch a step
    std::vector<std::int64_t> order;
    std::int64_t lowest = 1000;
    for (int row = 0; row < 10; ++row) {
      const std::int64_t start = sampler.start(step, row);
      lowest = std::min(lowest, start);
      order.push_back(start);
      for (int t = 1; t <= 8; ++t) seen.insert(start + t);
    }
    for (auto& start : order) start -= lowest;
    orders.insert(order);
  }
  CHECK(seen.size() == 85);    // all but token 0, which nothing comes before
  CHECK(orders.size() == 60);  // 10! orders: two alike are unlikely beyond 60^2 / 2 / 10! = 5e-4
}

TEST_CASE("permute is a permutation of any size, and close to a uniform one", "[data]") {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 100, 1023, 1024, 1025, 5000}) {
    for (const std::uint32_t key : {0U, 1U, 2U}) {
      std::vector<bool> hit(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t image = permute(i, n, 7, key);
        REQUIRE(image < n);
        hit[image] = true;
      }
      CHECK(std::count(hit.begin(), hit.end(), true) == static_cast<std::ptrdiff_t>(n));
    }
  }
  CHECK_THROWS_AS(permute(5, 5, 7, 0), Bug);

  for (const std::uint64_t n : {2U, 3U, 5U, 8U, 20U}) {
    // Where 0 goes over 4,000 keys: each image 4000/n times, standard deviation below sqrt(4000/n).
    std::vector<double> count(n);
    for (std::uint32_t key = 0; key < 4000; ++key) ++count[permute(0, n, 7, key)];
    const double expected = 4000.0 / static_cast<double>(n);
    for (const double c : count) CHECK(std::abs(c - expected) < 5 * std::sqrt(expected));
  }
}

TEST_CASE("beyond the batches that a run can draw is an error, not a wrong window", "[data]") {
  const std::vector<std::int32_t> tokens(100, 1);
  const auto sampler = [&](std::int64_t rows) {
    return WindowSampler(all(tokens), 4, WindowOrder::shuffle, 1, rows);
  };
  constexpr std::int64_t last = 4294967295, most_rows = 2147483647;
  CHECK(sampler(most_rows).start(last, most_rows - 1) < 100);
  const Error late = test::error_of([&] { sampler(2).start(last + 1, 0); });
  CHECK(late.kind == ErrorKind::config);
  CHECK(std::string(late.what()) == "a run has 4294967296 batches, and no one behind them");
  const Error large = test::error_of([&] { sampler(most_rows + 1); });
  CHECK(large.kind == ErrorKind::config);
  CHECK(std::string(large.what()) == "a step of 2147483648 sequences, and it may have 2147483647");
}

TEST_CASE("a batch knows where documents begin, if its tokens do", "[data]") {
  const auto tokens = counting(100);
  const std::vector<std::int64_t> documents = {0, 3, 40, 41, 90};
  WindowSampler stream(all(tokens), 7, WindowOrder::random, 3, 8);
  CHECK(stream.batch(0, 0, 8).starts == nullptr);
  WindowSampler packed(all(tokens).with_documents(documents), 7, WindowOrder::random, 3, 8);
  for (std::int64_t step = 0; step < 20; ++step) {
    const Batch batch = packed.batch(step, 0, 8);
    REQUIRE(batch.starts != nullptr);
    for (std::int64_t i = 0; i < 8 * 7; ++i) {
      const std::int64_t first = packed.start(step, i / 7), place = first + i % 7;
      std::int64_t wanted = 0;
      for (const std::int64_t start : documents)
        if (start <= place) wanted = std::max<std::int64_t>(0, start - first);
      CHECK(batch.starts[i] == wanted);
    }
  }
}
