#include "quern/train/estimate.hpp"

#include <algorithm>

#include "catch.hpp"
#include "error_of.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/process.hpp"
#include "quern/base/rng.hpp"
#include "quern/train/trainer.hpp"

using namespace quern;

namespace {

Config small_config() {
  Config config;
  config.model.d_model = 64;
  config.model.n_layers = 2;
  config.model.n_heads = 2;
  config.model.vocab_size = 100;
  config.model.context_length = 32;
  config.model.bias = false;
  config.run.batch_size = 8;
  config.run.grad_accumulation = 3;
  return config;
}

std::int64_t amount(const std::vector<Share>& shares, const std::string& name) {
  for (const Share& share : shares)
    if (share.name == name) return share.amount;
  return -1;
}

}  // namespace

TEST_CASE("an estimate counts parameters, tokens and arithmetic as by hand") {
  const RunEstimate e = estimate(small_config(), 0);
  constexpr std::int64_t C = 64, block = 12 * C * C + 2 * C;
  CHECK(amount(e.parameters_by_part, "decoder.embedding") == 100 * C + 32 * C);
  CHECK(amount(e.parameters_by_part, "decoder.blocks.0") == block);
  CHECK(amount(e.parameters_by_part, "decoder.blocks.1") == block);
  CHECK(amount(e.parameters_by_part, "decoder.norm") == C);
  CHECK(e.parameters == 132 * C + 2 * block + C);
  CHECK(e.tokens_per_step == 3 * 8 * 32);
  // 6 for each number of a matrix that a token meets, and attention's 2 products forward, 5 backward over the
  // (T + 1) / 2 keys that it sees on average.
  const double matrices = 6.0 * (2 * 12 * C * C + 100 * C), attention = 2 * 7 * 2.0 * C * 33 / 2;
  CHECK(e.flops_per_token() == Approx(matrices + attention).epsilon(1e-12));
  const std::int64_t slab = e.memory.gradients;
  CHECK(slab >= 4 * e.parameters);
  CHECK(slab < 4 * e.parameters + 64 * 20);
  CHECK(e.memory.weights == slab);
  CHECK(e.memory.moments == 2 * slab);
  std::int64_t sum = 0;
  for (const Share& share : e.memory.activations_by_layer) sum += share.amount;
  CHECK(sum == e.memory.activations);
  CHECK(amount(e.memory.activations_by_layer, "decoder.blocks.0") > 0);
}

TEST_CASE("the planned memory is what a training step then holds") {
  Config config = small_config();
  config.run.batch_size = 64;
  config.run.grad_accumulation = 1;
  const RunEstimate e = estimate(config, 0);
  std::vector<std::uint16_t> tokens(1000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i * 7 % 100);
  Model model(config.model, true);
  model.parameters().initialise(1);
  Workspace workspace;
  const TokenStore store(std::move(tokens));
  TrainBatches batches(WindowSampler(view(store), 32, WindowOrder::random, 1, 64), 64);
  train_step(model, workspace, batches, config, 1);
  const double held = static_cast<double>(workspace.pool.bytes_held());
  const double planned = static_cast<double>(e.memory.activations + e.memory.workspace);
  CHECK(planned == Approx(held).epsilon(0.1));  // statistics lie elsewhere
}

TEST_CASE("a batch by tokens is planned with as many rows of full length as these make") {
  Config config = small_config();
  config.run.grad_accumulation = 1;
  config.model.architecture = Architecture::encoder_decoder;
  config.run.batch_size = 4;
  const RunEstimate by_rows = estimate(config, 0);
  config.run.batch_tokens = 4 * 2 * 32 - 5;  // 4 rows of both sides, the last not whole
  config.run.batch_size = 64;
  const RunEstimate by_tokens = estimate(config, 0);
  CHECK(by_tokens.tokens_per_step == by_rows.tokens_per_step);
  CHECK(by_tokens.memory.activations == by_rows.memory.activations);
}

TEST_CASE("a refusal names the setting that is too large: tokens of a batch, or the rows of evaluations") {
  Config config = small_config();
  config.run.batch_tokens = 1'000'000'000'000;
  const auto number_behind = [&config](const std::string& name, std::int64_t windows) {
    const Error error = quern::test::error_of([&] { require_memory(config, windows); });
    REQUIRE(error.hint.starts_with(name + " "));
    return std::stoll(error.hint.substr(name.size() + 1));
  };
  config.run.batch_tokens = number_behind("run.batch_tokens", 0);
  CHECK(estimate(config, 0).memory.to_come() <= total_memory());
  config.run.batch_tokens = 64;
  config.run.batch_size = 1 << 20;
  config.run.batch_size = number_behind("run.batch_size", std::int64_t{1} << 40);
  CHECK(estimate(config, std::int64_t{1} << 40).memory.to_come() <= total_memory());
}

TEST_CASE("what fits no machine is refused with the numbers and what would fit") {
  Config config = small_config();
  CHECK_NOTHROW(require_memory(config, 0));
  config.model.context_length = 1024;
  config.model.d_model = 1024;
  config.run.batch_size = 1 << 20;
  try {
    require_memory(config, 0);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::memory);
    CHECK(std::string(error.what()).find("TiB") != std::string::npos);
    const std::string name = "run.batch_size ";
    REQUIRE(error.hint.starts_with(name));
    config.run.batch_size = std::stoll(error.hint.substr(name.size()));
    CHECK(config.run.batch_size >= 1);
    CHECK(estimate(config, 0).memory.to_come() <= total_memory());
  }
  config.model.context_length = 1 << 20;
  config.model.n_layers = 1024;
  config.run.batch_size = 1 << 20;
  CHECK_THROWS_AS(require_memory(config, 0), Error);
  config.run.batch_size = 1;
  config.model.context_length = 4096;
  config.model.d_model = 65536;
  try {
    require_memory(config, 0);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.hint.find("not even run.batch_size 1") != std::string::npos);
  }
}
