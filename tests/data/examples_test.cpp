#include "quern/data/examples.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "catch.hpp"
#include "error_of.hpp"

namespace quern {
namespace {

/// Example i has 1 + i mod 7 tokens i, and a source of 2 + i mod 3 tokens.
Examples some_examples(std::int64_t train, std::int64_t held_out = 5) {
  Examples examples;
  examples.train = train;
  examples.held_out = held_out;
  examples.get = [](Split split, std::int64_t i, Example& to) {
    const auto id = static_cast<std::int32_t>(split == Split::train ? i : 1000 + i);
    to.inputs.assign(static_cast<std::size_t>(1 + i % 7), id);
    to.targets = to.inputs;
    to.targets[0] = i % 2 == 0 ? kIgnore : id;
    to.source.assign(static_cast<std::size_t>(2 + i % 3), id);
  };
  examples.lengths = [](std::int64_t i) { return Lengths{2 + i % 3, 1 + i % 7}; };
  return examples;
}

ExampleOrder order_of(WindowOrder order, std::int64_t rows, std::int64_t tokens = 0) {
  return {order, 7, rows, tokens, 2, 16};
}

std::vector<std::int32_t> ids_of(const Batch& batch) {
  std::vector<std::int32_t> ids;
  for (std::int64_t r = 0; r < batch.rows; ++r) ids.push_back(batch.inputs[r * batch.length]);
  return ids;
}

TEST_CASE("rows of unequal length are padded to a multiple of 8, targets with what counts nowhere") {
  const Examples examples = some_examples(0);
  ExampleSampler sampler(examples, order_of(WindowOrder::random, 4));
  const Batch batch = sampler.batch(0, 1);  // examples 4 … 7
  CHECK(ids_of(batch) == std::vector<std::int32_t>{4, 5, 6, 7});
  CHECK(batch.length == 8);
  CHECK(batch.source_length == 8);
  CHECK(std::vector<std::int32_t>(batch.lengths, batch.lengths + 4) == std::vector<std::int32_t>{5, 6, 7, 1});
  CHECK(std::vector<std::int32_t>(batch.source_lengths, batch.source_lengths + 4) ==
        std::vector<std::int32_t>{3, 4, 2, 3});
  CHECK(batch.target_tokens == 4 + 6 + 6 + 1);
  CHECK(batch.targets[0] == kIgnore);
  CHECK(batch.targets[3 * 8] == 7);
  for (std::int64_t t = 1; t < 8; ++t) CHECK(batch.targets[3 * 8 + t] == kIgnore);
  CHECK(batch.first_row == 4);
}

TEST_CASE("rows of one length have no padding, and the context bounds the rounding") {
  Examples examples = some_examples(0);
  ExampleSampler sampler(examples, order_of(WindowOrder::random, 1));
  const Batch batch = sampler.batch(0, 0);
  CHECK(batch.length == 1);
  CHECK(batch.lengths == nullptr);
  CHECK(batch.source_lengths == nullptr);
  ExampleOrder narrow = order_of(WindowOrder::random, 7);
  narrow.context_length = 7;
  CHECK(ExampleSampler(examples, narrow).batch(0, 0).length == 7);
}

TEST_CASE("shuffled, every example comes once an epoch, in another order each") {
  const Examples examples = some_examples(12);
  ExampleSampler sampler(examples, order_of(WindowOrder::shuffle, 3));
  std::vector<std::vector<std::int32_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> seen;
    for (std::int64_t step = 2 * epoch; step < 2 * epoch + 2; ++step)
      for (std::int64_t i = 0; i < 2; ++i)
        for (const std::int32_t id : ids_of(sampler.batch(step, i))) seen.push_back(id);
    CHECK(std::set<std::int32_t>(seen.begin(), seen.end()).size() == 12);
    epochs.push_back(seen);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
}

TEST_CASE("by tokens, an epoch holds every example once, no batch too many tokens, and little padding") {
  const Examples examples = some_examples(200);
  ExampleSampler sampler(examples, order_of(WindowOrder::random, 1, 60));
  std::map<std::int32_t, int> seen;
  std::int64_t batches = 0, taken = 0;
  std::vector<std::int32_t> first_epoch;
  while (taken < 200) {
    const Batch batch = sampler.batch(batches / 2, batches % 2);
    ++batches;
    taken += batch.rows;
    std::int64_t longest = 0, shortest = 1000;
    for (const std::int32_t id : ids_of(batch)) {
      ++seen[id];
      first_epoch.push_back(id);
      longest = std::max<std::int64_t>(longest, examples.lengths(id).both());
      shortest = std::min<std::int64_t>(shortest, examples.lengths(id).both());
    }
    CHECK(batch.rows * (batch.length + batch.source_length) <= 60);
    CHECK(longest - shortest <= 2);
  }
  CHECK(taken == 200);
  CHECK(seen.size() == 200);
  // The same whoever asks, and from wherever.
  ExampleSampler other(examples, order_of(WindowOrder::random, 1, 60));
  const auto far = ids_of(other.batch(batches, 1));
  CHECK(ids_of(sampler.batch(batches, 1)) == far);
  CHECK(ids_of(other.batch(0, 0)) == ids_of(sampler.batch(0, 0)));
  std::vector<std::int32_t> second;
  for (std::int64_t i = batches; i < 2 * batches; ++i)
    for (const std::int32_t id : ids_of(sampler.batch(i / 2, i % 2))) second.push_back(id);
  CHECK(second != first_epoch);
  std::sort(second.begin(), second.end());
  CHECK(std::unique(second.begin(), second.end()) == second.end());
}

TEST_CASE(
    "by tokens, padding counts: many short rows of two sides are no larger a batch than few long ones") {
  Examples examples = some_examples(3000);
  examples.get = [](Split, std::int64_t i, Example& to) {
    to.inputs.assign(static_cast<std::size_t>(1 + i % 3), 1);
    to.targets = to.inputs;
    to.source.assign(static_cast<std::size_t>(3 - i % 3), 1);
  };
  examples.lengths = [](std::int64_t i) { return Lengths{3 - i % 3, 1 + i % 3}; };  // 4 tokens each
  ExampleSampler sampler(examples, order_of(WindowOrder::random, 1, 800));
  std::int64_t largest = 0;
  for (std::int64_t step = 0; step < 100; ++step) {
    const Batch batch = sampler.batch(step, 0);
    largest = std::max(largest, batch.rows * (batch.length + batch.source_length));
  }
  CHECK(largest <= 800);
  CHECK(largest > 700);
}

TEST_CASE("an example that alone has too many tokens is refused") {
  const Examples examples = some_examples(30);
  CHECK_THROWS_WITH(ExampleSampler(examples, order_of(WindowOrder::random, 1, 5)),
                    Catch::Contains("run.batch_tokens is 5") && Catch::Contains("11 tokens"));
}

TEST_CASE("beyond the batches that a run can draw is an error, not a wrong example") {
  constexpr std::int64_t last = 4294967295;
  const Examples examples = some_examples(9), endless = some_examples(0);
  for (const Examples* from : {&examples, &endless})
    for (const std::int64_t tokens : {0, 64}) {
      if (from == &endless && tokens > 0) continue;  // the config forbids it
      ExampleSampler sampler(*from, order_of(WindowOrder::shuffle, 2, tokens));
      CHECK_NOTHROW(sampler.numbers(last));
      CHECK_NOTHROW(sampler.batch(last, 1));
      CHECK(test::error_of([&] { sampler.numbers(last + 1); }).kind == ErrorKind::config);
      CHECK(test::error_of([&] { sampler.batch(last + 1, 0); }).kind == ErrorKind::config);
    }
  const Error large =
      test::error_of([&] { ExampleSampler(examples, order_of(WindowOrder::shuffle, 1073741824)); });
  CHECK(large.kind == ErrorKind::config);
  CHECK(std::string(large.what()) == "a step of 2147483648 sequences, and it may have 2147483647");
}

TEST_CASE("an evaluation takes the held-out examples in order, or some batches of them") {
  const Examples examples = some_examples(0, 5);
  ExampleEvaluation whole(examples, Split::val, 2, 0, 16);
  CHECK(whole.batches() == 3);
  CHECK(whole.rows() == 5);
  CHECK(ids_of(whole.batch(2)) == std::vector<std::int32_t>{1004});
  ExampleEvaluation some(examples, Split::val, 2, 1, 16);
  CHECK(some.rows() == 2);
  CHECK(ids_of(some.batch(0)) == std::vector<std::int32_t>{1000, 1001});
}

TEST_CASE(
    "an evaluation of the training split takes it whole, or as many as are held out of one without end") {
  const Examples all = some_examples(7, 5), endless = some_examples(0, 5);
  ExampleEvaluation whole(all, Split::train, 4, 0, 16), first(endless, Split::train, 4, 0, 16);
  CHECK(whole.rows() == 7);
  CHECK(ids_of(whole.batch(1)) == std::vector<std::int32_t>{4, 5, 6});
  CHECK(first.rows() == 5);
  CHECK(ids_of(first.batch(1)) == std::vector<std::int32_t>{4});
}

}  // namespace
}  // namespace quern
