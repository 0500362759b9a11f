#include "quern/train/batches.hpp"

#include <algorithm>
#include <set>

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

}  // namespace
}  // namespace quern
