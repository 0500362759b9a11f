// LLaMA's parts against transformers: tests/fixtures/make_llama_block.py says what stands in the fixture and
// how weights and inputs come about.
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "quern/nn/block.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

constexpr std::int64_t C = 16, B = 2, T = 6;

// f32 through one block: some 1e-6 of a tensor's largest number. A wrong formula shows at 1e-3 or more.
constexpr double tolerance = 1e-5;

ModelConfig config_of(Activation activation) {
  ModelConfig config;
  config.d_model = C;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.d_ff = 24;
  config.bias = false;
  config.norm = NormKind::rmsnorm;
  config.activation = activation;
  config.position = PositionKind::rope;
  config.rope_theta = 100;
  return config;
}

std::vector<float> formula(std::int64_t k, std::int64_t n, double scale, double shift) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < n; ++i)
    numbers.push_back(static_cast<float>(
        shift + scale * (2 * static_cast<double>((i * i * i + 5 * i + 131 * k) % 1009) / 1009 - 1)));
  return numbers;
}

/// A block whose parts are run alone or together.
struct Part {
  ParamStore store;
  Block block;
  Workspace workspace;

  explicit Part(const ModelConfig& config) : block(Scope(store), config) {
    store.allocate(true);
    std::int64_t k = 0;
    for (Parameter& p : store.all()) {
      const bool gain = p.shape.size() == 1;
      const auto numbers = formula(k++, p.size(), gain ? 0.3 : 0.4, gain ? 1 : 0);
      std::copy(numbers.begin(), numbers.end(), p.slot.value.f32());
    }
    store.begin_step();
  }
};

/// The sum of what `run` gives, and the gradients of sum(R * that sum).
void check(const nlohmann::json& wanted, Activation activation,
           const std::function<std::vector<Var>(Tape&, const Block&, Var)>& run) {
  Part part(config_of(activation));
  auto x = formula(100, B * T * C, 1, 0), weights = formula(101, B * T * C, 1, 0);
  Tape tape(part.workspace, Mode::train);
  const Var input = tape.leaf(Tensor(x.data(), {B, T, C}), true);
  std::vector<float> y(x.size());
  for (const Var& out : run(tape, part.block, input)) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += out.value().f32()[i];
    tape.seed(out, Tensor(weights.data(), {B, T, C}));
  }
  tape.backward();
  CHECK(reference::relative_error(y, wanted.at("y").get<std::vector<double>>()) < tolerance);
  std::map<std::string, Tensor> gradients = {{"x", tape.grad(input)}};
  for (const Parameter& p : part.store.all())
    if (p.slot.written) gradients[p.name] = p.slot.grad;
  CHECK(gradients.size() == wanted.at("gradients").size());
  for (const auto& [name, gradient] : wanted.at("gradients").items()) {
    CAPTURE(name);
    REQUIRE(gradients.contains(name));
    const Tensor& g = gradients.at(name);
    CHECK(reference::relative_error(std::vector<float>(g.f32(), g.f32() + g.size()),
                                    gradient.get<std::vector<double>>()) < tolerance);
  }
}

nlohmann::json fixture() {
  std::ifstream in(QUERN_SOURCE_DIR "/tests/fixtures/llama_block.json");
  return nlohmann::json::parse(in);
}

TEST_CASE("LLaMA's block with grouped queries and RoPE is that of transformers, with all gradients") {
  check(fixture()["block"], Activation::swiglu, [](Tape& tape, const Block& block, Var x) {
    AttentionContext context;
    context.rotations = rotary_positions(tape, 0, T, C / 4, 100);
    const Flow y = block(tape, {x, Var()}, context, Memory(), BlockCache());
    return std::vector<Var>{y.stream, y.branch};
  });
}

TEST_CASE("RMSNorm, SwiGLU and GEGLU are those of transformers, with all gradients") {
  check(fixture()["rmsnorm"], Activation::swiglu, [](Tape& tape, const Block& block, Var x) {
    return std::vector<Var>{block.attention_norm(tape, x, Var()).normed};
  });
  const auto fed = [](Tape& tape, const Block& block, Var x) {
    return std::vector<Var>{block.feed_forward(tape, x)};
  };
  check(fixture()["swiglu"], Activation::swiglu, fed);
  check(fixture()["geglu"], Activation::geglu, fed);
}

}  // namespace
}  // namespace quern
