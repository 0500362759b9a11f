#include "quern/train/batches.hpp"

#include <algorithm>
#include <set>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/objective.hpp"

namespace quern {
namespace {

Config config_of(Architecture architecture, TaskKind task) {
  Config config;
  config.model.architecture = architecture;
  config.model.context_length = 32;
  config.data.task = task;
  config.data.val_fraction = 0.25;
  config.run.batch_size = 6;
  config.run.grad_accumulation = 2;
  return config;
}

TEST_CASE("15 % of a text are hidden: 80 % as a mask, 10 % as any token, 10 % as they are") {
  Config config = config_of(Architecture::encoder, TaskKind::text);
  config.run.batch_size = 64;
  const Dataset data = load_dataset(config.data, data_shape(config));
  config = settled(config, data);
  const std::int32_t mask = data.tokenizer.vocab_size();
  CHECK(config.model.vocab_size == mask + 1);
  TrainBatches batches(config, data);
  double all = 0, hidden = 0, masked = 0, kept = 0;
  for (std::int64_t step = 0; step < 40; ++step) {
    const Batch batch = batches.batch(step, step % 2);
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < batch.rows * batch.length; ++i) {
      ++all;
      if (batch.targets[i] == kIgnore) {
        CHECK(batch.inputs[i] != mask);
        continue;
      }
      ++counted;
      masked += batch.inputs[i] == mask;
      kept += batch.inputs[i] == batch.targets[i];
    }
    CHECK(counted == batch.target_tokens);
    hidden += static_cast<double>(counted);
  }
  // Shares of some 80,000 draws: five standard deviations are below 0.7 % of all, and of the 12,000 hidden
  // ones below 1.9 %. A random token is the true one in 1 of 42.
  CHECK(std::abs(hidden / all - 0.15) < 0.007);
  CHECK(std::abs(masked / hidden - 0.8) < 0.019);
  CHECK(std::abs(kept / hidden - (0.1 + 0.1 / mask)) < 0.015);
}

TEST_CASE("an evaluation hides the same tokens each time, training others each step") {
  Config config = config_of(Architecture::encoder, TaskKind::text);
  const Dataset data = load_dataset(config.data, data_shape(config));
  config = settled(config, data);
  auto validation = *evaluation_batches(config, data);
  const auto targets = [&](const Batch& batch) {
    return std::vector<std::int32_t>(batch.targets, batch.targets + batch.rows * batch.length);
  };
  const auto first = targets(validation.batch(3));
  CHECK(targets(validation.batch(3)) == first);
  TrainBatches batches(config, data);
  const auto hidden = [&](std::int64_t step) {
    const Batch batch = batches.batch(step, 0);
    std::vector<bool> which;
    for (std::int64_t i = 0; i < batch.rows * batch.length; ++i) which.push_back(batch.targets[i] != kIgnore);
    return which;
  };
  CHECK(hidden(0) != hidden(1));
  CHECK(hidden(0) == hidden(0));
}

TEST_CASE("what comes out and how rows lie follow from architecture and task") {
  const auto head = [](Architecture a, TaskKind t) { return head_of(config_of(a, t)); };
  const auto framing = [](Architecture a, TaskKind t) { return framing_of(config_of(a, t)); };
  CHECK(head(Architecture::decoder, TaskKind::text) == HeadKind::tokens);
  CHECK(head(Architecture::decoder, TaskKind::parity) == HeadKind::tokens);
  CHECK(head(Architecture::encoder, TaskKind::parity) == HeadKind::label);
  CHECK(head(Architecture::encoder, TaskKind::tagging) == HeadKind::tags);
  CHECK(head(Architecture::encoder, TaskKind::regression) == HeadKind::value);
  CHECK(head(Architecture::vit, TaskKind::shapes) == HeadKind::label);
  CHECK(framing(Architecture::decoder, TaskKind::sort) == Framing::stream);
  CHECK(framing(Architecture::encoder_decoder, TaskKind::sort) == Framing::memory);
  CHECK(framing(Architecture::rnn, TaskKind::dates) == Framing::memory);
  CHECK(framing(Architecture::rnn, TaskKind::recall) == Framing::stream);
  CHECK(framing(Architecture::encoder, TaskKind::parity) == Framing::whole);
}

TEST_CASE("micro-batches of a step are parts of it, and a batch is a function of step and part") {
  Config config = config_of(Architecture::decoder, TaskKind::sort);
  const Dataset data = load_dataset(config.data, data_shape(config));
  TrainBatches parts(config, data);
  config.run.batch_size = 12;
  config.run.grad_accumulation = 1;
  TrainBatches whole(config, data);
  const Batch all = whole.batch(5, 0);
  const std::vector<std::int32_t> ids(all.inputs, all.inputs + all.rows * all.length);
  for (const std::int64_t i : {1, 0}) {
    const Batch part = parts.batch(5, i);
    CHECK(part.first_row == 6 * i);
    CHECK(std::equal(part.inputs, part.inputs + part.rows * part.length, ids.begin() + i * 6 * part.length));
  }
}

/// The numbers in a text, in their order.
std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; (at = text.find_first_of("0123456789", at)) != text.npos;) {
    std::size_t size = 0;
    numbers.push_back(std::stoll(text.substr(at), &size));
    at += size;
  }
  return numbers;
}

TEST_CASE("the epochs of a run that is resumed see the whole corpus, each part once") {
  const test::TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "line " + std::to_string(i) + "\t" + (i % 2 == 0 ? "a" : "b") + "\n";
  test::put(directory / "lines.tsv", lines);
  Config text = config_of(Architecture::decoder, TaskKind::text);
  Config records = config_of(Architecture::encoder, TaskKind::classification);
  for (Config* config : {&text, &records}) {
    config->data.order = WindowOrder::shuffle;
    config->data.text = {(directory / "lines.tsv").string()};
    config->data.tokenizer = "byte";
    const Dataset data = load_dataset(config->data, data_shape(*config));
    const std::int64_t T = config->model.context_length, rows = 12;
    const std::int64_t epoch = data.corpus ? (data.train_size() - 1) / T : data.train_size();
    REQUIRE(epoch % rows != 0);  // so that steps reach into the next epoch
    for (const std::int64_t cut : {std::int64_t{1}, epoch / rows, epoch - 1}) {
      std::vector<std::int64_t> seen;  // a step at a time, from step `cut` on by another process
      TrainBatches before(*config, data), after(*config, data);
      for (std::int64_t step = 0; step < epoch; ++step) {
        const auto part = numbers_in((step < cut ? before : after).describe(step));
        REQUIRE(part.size() == std::size_t(rows));
        seen.insert(seen.end(), part.begin(), part.end());
      }
      for (std::int64_t first = 0; first < rows * epoch; first += epoch) {
        std::vector<std::int64_t> places(seen.begin() + first, seen.begin() + first + epoch);
        CAPTURE(cut, first, places);
        CHECK_FALSE(std::is_sorted(places.begin(), places.end()));
        std::sort(places.begin(), places.end());
        CHECK(places.front() < (data.corpus ? T : 1));
        for (std::int64_t i = 0; i < epoch; ++i)
          CHECK(places[std::size_t(i)] == places.front() + i * (data.corpus ? T : 1));
      }
    }
  }
}

}  // namespace
}  // namespace quern
