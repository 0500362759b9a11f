// What a model's attention looks at: the probe, and what positions and the mask change about it.
#include <algorithm>

#include "quern/nn/model.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

using reference::normal;

constexpr std::int64_t B = 2, T = 9, V = 7;

ModelConfig small_config(PositionKind position) {
  ModelConfig config;
  config.d_model = 16;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.n_layers = 3;
  config.vocab_size = V;
  config.context_length = T;
  config.position = position;
  config.init = InitKind::xavier;
  return config;
}

std::vector<std::int32_t> some_ids() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < B * T; ++i) ids.push_back((i * i + 2 * i) % V);
  return ids;
}

TEST_CASE("a forward returns the weights of the layers and heads that are asked for") {
  Model model(small_config(PositionKind::rope), false);
  model.parameters().initialise(3);
  const auto ids = some_ids();
  Workspace workspace;
  AttentionProbe all, some{{0, 2}, {1}, {}};
  std::vector<float> logits[2];
  for (AttentionProbe* probe : {&all, &some}) {
    Tape tape(workspace, Mode::infer);
    const Tensor y = model.logits(tape, {ids.data(), B, T}, nullptr, probe).value();
    logits[probe == &some].assign(y.f32(), y.f32() + y.size());
  }
  CHECK(logits[0] == logits[1]);
  REQUIRE(all.found.size() == 12);
  REQUIRE(some.found.size() == 2);
  CHECK((some.found[0].layer == 0 && some.found[0].head == 1 && some.found[1].layer == 2));
  CHECK(some.found[1].weights == all.found[9].weights);
  for (const AttentionProbe::Weights& found : all.found) {
    REQUIRE((found.columns == T && !found.mixtures));
    REQUIRE(found.weights.size() == B * T * T);
    for (std::size_t row = 0; row < B * T; ++row) {
      double sum = 0;
      for (std::size_t s = 0; s < T; ++s) {
        const float weight = found.weights[row * T + s];
        sum += double(weight);
        CHECK((s <= row % T ? weight > 0 : weight == 0));
      }
      CHECK(std::abs(sum - 1) < 1e-6);
    }
  }
}

TEST_CASE("low-rank attention's weights are those of its mixtures") {
  constexpr std::size_t R = 4;
  ModelConfig config = small_config(PositionKind::learned);
  config.architecture = Architecture::encoder;
  config.attention = AttentionKind::low_rank;
  config.rank = R;
  Model model(config, false);
  model.parameters().initialise(3);
  const auto ids = some_ids();
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  AttentionProbe probe;
  model.logits(tape, {ids.data(), B, T}, nullptr, &probe);
  REQUIRE(probe.found.size() == 12);
  for (const AttentionProbe::Weights& found : probe.found) {
    REQUIRE((found.columns == R && found.mixtures));
    REQUIRE(found.weights.size() == B * T * R);
    for (std::size_t row = 0; row < B * T; ++row) {
      double sum = 0;
      for (std::size_t r = 0; r < R; ++r) sum += double(found.weights[row * R + r]);
      CHECK(std::abs(sum - 1) < 1e-6);
    }
  }
}

/// One module's result for x, whose rows are in this order.
std::vector<float> attend(const MultiHeadAttention& attention, const std::vector<float>& x,
                          const std::vector<std::size_t>& order, bool rope) {
  constexpr std::size_t C = 16;
  std::vector<float> rows;
  for (const std::size_t t : order)
    rows.insert(rows.end(), x.begin() + std::ptrdiff_t(t * C), x.begin() + std::ptrdiff_t((t + 1) * C));
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  const Var in = tape.leaf(Tensor(rows.data(), {1, T, C}));
  AttentionContext context;
  if (rope) context.rotations = rotary_positions(tape, 0, T, 4, 10000);
  const Tensor y = attention(tape, in, in, context, nullptr).value();
  std::vector<float> back(x.size());
  for (std::size_t i = 0; i < T; ++i)
    std::copy_n(y.f32() + i * C, C, back.begin() + std::ptrdiff_t(order[i] * C));
  return back;
}

TEST_CASE("without positions and mask outputs permute with the inputs; with either they do not") {
  const std::vector<std::size_t> as_is = {0, 1, 2, 3, 4, 5, 6, 7, 8}, mixed = {3, 8, 0, 5, 1, 7, 2, 6, 4};
  const auto x = normal(T * 16, 1);
  ParamStore store;
  ModelConfig config = small_config(PositionKind::none);
  MultiHeadAttention attention(Scope(store), config);
  store.allocate(false);
  store.initialise(5);
  const auto change = [&](bool rope) {
    return reference::relative_error(attend(attention, x, mixed, rope), attend(attention, x, as_is, rope));
  };
  CHECK(change(false) > 0.05);  // the causal mask is an order
  attention.causal = false;
  CHECK(change(false) < 1e-6);
  CHECK(change(true) > 0.05);
  attention.slopes = alibi_slopes(4);
  CHECK(change(false) > 0.05);
}

}  // namespace
}  // namespace quern
