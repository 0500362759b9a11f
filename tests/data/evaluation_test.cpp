#include "quern/data/evaluation.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace quern;

namespace {

/// Tokens 0 … n - 1 of a vocabulary of bytes, so that a token is its own place (n <= 256).
std::vector<std::uint16_t> counting(std::int64_t n) {
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  return tokens;
}

/// How many times each token is a target that counts; checks on the way that inputs precede targets and that
/// a target that counts has at least `context` inputs up to it (but where the split itself has fewer).
std::vector<int> times_counted(EvalWindows& windows, std::int64_t n, std::int64_t context) {
  std::vector<int> count(static_cast<std::size_t>(n));
  std::int64_t targets = 0;
  for (std::int64_t i = 0; i < windows.batches(); ++i) {
    const Batch batch = windows.batch(i);
    std::int64_t in_batch = 0;
    bool successors = true, with_context = true;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      for (std::int64_t t = 0; t < batch.length; ++t) {
        const std::int32_t input = batch.inputs[row * batch.length + t];
        const std::int32_t target = batch.targets[row * batch.length + t];
        if (t > 0) successors = successors && input == batch.inputs[row * batch.length + t - 1] + 1;
        if (target == kIgnore) continue;
        successors = successors && target == input + 1;
        with_context = with_context && t + 1 >= std::min<std::int64_t>(context, target);
        ++count[static_cast<std::size_t>(target)];
        ++in_batch;
      }
    }
    CHECK(successors);
    CHECK(with_context);
    CHECK(in_batch == batch.target_tokens);
    CHECK(batch.target_bytes == in_batch);  // a byte a token
    targets += in_batch;
  }
  CHECK(targets == windows.target_tokens());
  return count;
}

}  // namespace

TEST_CASE("every token but the first counts exactly once, for any stride", "[data]") {
  const Tokenizer tokenizer = Tokenizer::bytes();
  for (const std::int64_t length : {1, 2, 7, 8, 16}) {
    for (const std::int64_t n : {length + 1, length + 2, 2 * length, 2 * length + 1, 3 * length + 1,
                                 std::int64_t{101}, std::int64_t{256}}) {
      const auto tokens = counting(n);
      for (const std::int64_t stride : {std::int64_t{0}, std::int64_t{1}, length / 2, length - 1, length}) {
        for (const std::int64_t batch_size : {1, 3, 64}) {
          if (stride < 0 || (stride == 0 && length / 2 == 0 && batch_size > 3)) continue;
          INFO("T " << length << ", n " << n << ", stride " << stride << ", batch " << batch_size);
          EvalWindows windows(
              TokenView(std::span<const std::uint16_t>(tokens)), tokenizer,
              {.context_length = length, .stride = stride, .batch_size = batch_size, .batches = 0});
          CHECK(windows.target_tokens() == n - 1);
          const std::int64_t step = stride == 0 ? length : stride;
          CHECK(windows.windows() == 1 + (n - 1 - length + step - 1) / step);
          std::vector<int> expected(static_cast<std::size_t>(n), 1);
          expected[0] = 0;
          CHECK(times_counted(windows, n, length - step + 1) == expected);
        }
      }
    }
  }
}

TEST_CASE("the last window is moved back and counts what is left", "[data]") {
  const auto tokens = counting(11);  // ten targets, windows of 4: 4 + 4 + 2
  const Tokenizer tokenizer = Tokenizer::bytes();
  EvalWindows windows(TokenView(std::span<const std::uint16_t>(tokens)), tokenizer,
                      {.context_length = 4, .stride = 0, .batch_size = 2, .batches = 0});
  REQUIRE(windows.batches() == 2);
  CHECK(windows.batch(0).rows == 2);
  const Batch last = windows.batch(1);
  REQUIRE(last.rows == 1);
  CHECK(last.first_row == 2);
  CHECK(std::vector<std::int32_t>(last.inputs, last.inputs + 4) == std::vector<std::int32_t>{6, 7, 8, 9});
  CHECK(std::vector<std::int32_t>(last.targets, last.targets + 4) ==
        std::vector<std::int32_t>{kIgnore, kIgnore, 9, 10});
  CHECK(last.target_tokens == 2);
  CHECK_THROWS_AS(windows.batch(2), Bug);
}

TEST_CASE("a number of batches is spread evenly over the windows", "[data]") {
  const auto tokens = counting(1 + 24 * 8);
  const Tokenizer tokenizer = Tokenizer::bytes();
  const auto starts = [&](std::int64_t batch_size, std::int64_t batches) {
    EvalWindows windows(TokenView(std::span<const std::uint16_t>(tokens)), tokenizer,
                        {.context_length = 8, .stride = 0, .batch_size = batch_size, .batches = batches});
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < windows.batches(); ++i) {
      const Batch batch = windows.batch(i);
      for (std::int64_t row = 0; row < batch.rows; ++row) result.push_back(batch.inputs[row * 8] / 8);
    }
    CHECK(static_cast<std::int64_t>(result.size()) == windows.windows());
    CHECK(windows.target_tokens() == 8 * windows.windows());
    return result;
  };
  CHECK(starts(2, 2) == std::vector<std::int64_t>{0, 6, 12, 18});
  CHECK(starts(5, 1) == std::vector<std::int64_t>{0, 4, 9, 14, 19});
  CHECK(starts(5, 4).size() == 20);
  CHECK(starts(5, 5).size() == 24);  // five batches of five are all 24 windows
  CHECK(starts(5, 1000).size() == 24);
  CHECK(starts(24, 1).back() == 23);
}

TEST_CASE("the bytes of the targets are counted, not the first token's", "[data]") {
  const std::string text = "a\xC3\xA9\xF0\x9F\x98\x80za\xC3\xA9";  // 1 2 4 1 1 2 bytes
  const std::vector<Text> texts = {{text, {}}};
  const Tokenizer tokenizer = Tokenizer::characters(texts);
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  EvalWindows windows(TokenView(std::span<const std::int32_t>(ids)), tokenizer,
                      {.context_length = 3, .stride = 0, .batch_size = 1, .batches = 0});
  REQUIRE(windows.batches() == 2);
  CHECK(windows.batch(0).target_bytes == 2 + 4 + 1);
  CHECK(windows.batch(1).target_bytes == 1 + 2);
}

TEST_CASE("a stride above the context is refused", "[data]") {
  const auto tokens = counting(100);
  const Tokenizer tokenizer = Tokenizer::bytes();
  const EvalOptions options = {.context_length = 8, .stride = 9, .batch_size = 1, .batches = 0};
  try {
    const EvalWindows windows(TokenView(std::span<const std::uint16_t>(tokens)), tokenizer, options);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::config);
    CHECK(std::string(error.what()).rfind("data.eval_stride 9 is larger than model.context_length 8", 0) ==
          0);
  }
}

TEST_CASE("evaluation windows carry the documents' beginnings", "[data]") {
  const auto tokens = counting(20);
  const Tokenizer tokenizer = Tokenizer::bytes();
  const std::vector<std::int64_t> documents = {0, 6, 15};
  EvalOptions options;
  options.context_length = 8;
  options.batch_size = 4;
  EvalWindows windows(TokenView(std::span<const std::uint16_t>(tokens)).with_documents(documents), tokenizer,
                      options);
  const Batch batch = windows.batch(0);  // at 0, 8, 11
  REQUIRE(batch.rows == 3);
  const std::vector<std::int32_t> wanted = {0, 0, 0, 0, 0, 0, 6, 6, 0, 0, 0, 0,
                                            0, 0, 0, 7, 0, 0, 0, 0, 4, 4, 4, 4};
  CHECK(std::vector<std::int32_t>(batch.starts, batch.starts + 24) == wanted);
}

TEST_CASE("an evaluation of masks tells at least one token, and other masks are as they were drawn",
          "[data]") {
  constexpr std::int64_t T = 3;
  const auto tokens = counting(2 * T + 2);  // windows of 3 + 3 + 1 tokens that count
  const TokenView view{std::span<const std::uint16_t>(tokens)};
  const Tokenizer tokenizer = Tokenizer::bytes();
  int alone = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const Masking masking{256, 256, seed};
    EvalWindows windows(
        view, tokenizer,
        {.context_length = T, .stride = 0, .batch_size = 3, .batches = 0, .masking = masking});
    REQUIRE(windows.batches() == 1);
    const Batch batch = windows.batch(0);
    REQUIRE(batch.rows == 3);
    const std::vector<std::int32_t> inputs(batch.inputs, batch.inputs + 3 * T),
        targets(batch.targets, batch.targets + 3 * T);
    BatchBuffer drawn;
    drawn.resize(3, T);
    for (std::int64_t row = 0; row < 3; ++row) {
      drawn.fill(row, view, std::min(row * T, std::ssize(tokens) - 1 - T));
      drawn.mask(row, masking, 0xffffffff, row);
      if (row == 2) drawn.ignore(row, T - 1);
    }
    CHECK(batch.target_tokens == std::max<std::int64_t>(1, drawn.count_targets(3)));
    if (drawn.count_targets(3) > 0) {
      CHECK(std::equal(inputs.begin(), inputs.end(), drawn.inputs()));
      CHECK(std::equal(targets.begin(), targets.end(), drawn.targets()));
      continue;
    }
    ++alone;
    const auto hidden = std::find_if(targets.begin(), targets.end(), [](auto t) { return t != kIgnore; });
    REQUIRE(hidden != targets.end());
    const std::int64_t at = hidden - targets.begin();
    CHECK(*hidden == std::min(at / T * T, std::ssize(tokens) - 1 - T) + at % T);
    CHECK(windows.batch(0).targets[at] == *hidden);
    const double draw = mask_draw(masking, 0xffffffff, at / T, at % T);
    for (const std::int64_t other : {0, 1, 2, 3, 4, 5, 8})  // those of the last window that count
      CHECK(mask_draw(masking, 0xffffffff, other / T, other % T) >= draw);
  }
  CHECK(alone > 30);  // 0.85^7 of 200 are 64
}
