// Two models against PyTorch: tests/fixtures/make_torch_models.py says what stands in the fixture and how
// weights and tokens come about.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "quern/kernels/adamw.hpp"
#include "quern/kernels/loss.hpp"
#include "quern/kernels/reduce.hpp"
#include "quern/nn/model.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

constexpr std::int64_t V = 11, T = 8, B = 2;
constexpr int steps = 20;

// Rounding of f32 through 2 blocks is about 1e-6 of a tensor's largest number; a wrong formula shows at 1e-3
// or more.
constexpr double gradient_tolerance = 1e-5;
// PyTorch's own float32 stays within 1e-6 of its float64 here; the decay alone moves the losses by more than
// 1e-3.
constexpr double training_tolerance = 1e-4;

nlohmann::json fixture() {
  std::ifstream in(QUERN_SOURCE_DIR "/tests/fixtures/torch_models.json");
  return nlohmann::json::parse(in);
}

ModelConfig config_of(bool post) {
  ModelConfig config;
  config.d_model = 16;
  config.n_heads = config.n_layers = 2;
  config.d_ff = 32;
  config.vocab_size = V;
  config.context_length = T;
  if (post) {
    config.norm_placement = NormPlacement::post;
    config.position = PositionKind::sinusoidal;
    config.activation = Activation::relu;
    config.tie_embeddings = false;
  }
  return config;
}

void set_parameters(ParamStore& store) {
  std::int64_t k = 0;
  for (Parameter& p : store.all()) {
    float* w = p.slot.value.f32();
    const bool gain = p.name.ends_with("norm.weight");
    for (std::int64_t i = 0; i < p.size(); ++i) {
      const double u = 2 * static_cast<double>((i * i * i + 5 * i + 131 * k) % 1009) / 1009 - 1;
      w[i] = static_cast<float>(p.shape.size() == 2 ? 0.4 * u : gain ? 1 + 0.3 * u : 0.2 * u);
    }
    ++k;
  }
}

struct Batch {
  std::vector<std::int32_t> ids, targets;  // (B,T)

  explicit Batch(int step) {
    const auto token = [step](std::int64_t b, std::int64_t t) {
      return static_cast<std::int32_t>((t * t + 3 * b * t + 5 * b + step % 3 * (t + 1)) % V);
    };
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t t = 0; t < T; ++t) {
        ids.push_back(token(b, t));
        targets.push_back(token(b, t + 1));
      }
    targets.back() = ignored_target;
  }

  Tokens tokens() const { return {ids.data(), B, T}; }
  double normaliser() const { return B * T - 1; }
};

/// The mean smoothed loss of a batch; the store holds the gradients.
double loss_and_gradients(Model& model, Workspace& workspace, const Batch& batch, float label_smoothing) {
  model.parameters().begin_step();
  Tape tape(workspace, Mode::train);
  const Loss loss =
      model.loss(tape, {batch.tokens()}, batch.targets.data(), batch.normaliser(), label_smoothing);
  tape.backward();
  model.parameters().complete_gradients();
  CHECK(loss.targets == B * T - 1);
  return loss.smoothed / batch.normaliser();
}

std::vector<float> gradient(const Parameter& p) {
  const float* g = p.slot.grad.f32();
  return {g, g + p.size()};
}

void update(ParamStore& store, std::int64_t step) {
  const double norm = std::sqrt(sum_of_squares(store.gradients(), store.slab_size()));
  AdamW adamw;
  adamw.learning_rate = 1e-2F;
  adamw.beta2 = 0.95F;
  adamw.weight_decay = 0.1F;
  adamw.gradient_scale = static_cast<float>(std::min(1.0, 1 / norm));
  adamw.step = step;
  const std::int64_t d = store.decaying_size();
  adamw_update(store.values(), store.gradients(), store.first_moments(), store.second_moments(), d, adamw);
  adamw.weight_decay = 0;
  adamw_update(store.values() + d, store.gradients() + d, store.first_moments() + d,
               store.second_moments() + d, store.slab_size() - d, adamw);
}

void check_model(const nlohmann::json& wanted, bool post) {
  const auto label_smoothing = wanted["label_smoothing"].get<float>();
  Model model(config_of(post), true);
  set_parameters(model.parameters());
  Workspace workspace;
  const Batch batch(0);
  {
    Tape tape(workspace, Mode::infer);
    const Tensor logits = model.logits(tape, batch.tokens()).value();
    const std::vector<float> ours(logits.f32(), logits.f32() + logits.size());
    CHECK(reference::relative_error(ours, wanted["logits"].get<std::vector<double>>()) < gradient_tolerance);
  }
  const double loss = loss_and_gradients(model, workspace, batch, label_smoothing);
  CHECK(loss == Approx(wanted["loss"].get<double>()).epsilon(1e-6));
  const auto& gradients = wanted["gradients"];
  CHECK(gradients.size() == model.parameters().all().size());
  for (const Parameter& p : model.parameters().all()) {
    CAPTURE(p.name);
    REQUIRE(gradients.contains(p.name));
    const auto torch = gradients[p.name].get<std::vector<double>>();
    REQUIRE(static_cast<std::int64_t>(torch.size()) == p.size());
    CHECK(reference::relative_error(gradient(p), torch) < gradient_tolerance);
  }
  const auto losses = wanted["train_float64"].get<std::vector<double>>();
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    const double ours = loss_and_gradients(model, workspace, Batch(step), label_smoothing);
    CHECK(ours == Approx(losses[static_cast<std::size_t>(step)]).epsilon(training_tolerance));
    update(model.parameters(), step + 1);
  }
}

TEST_CASE("a pre-norm model's logits, gradients and 20 training steps are PyTorch's") {
  check_model(fixture()["pre_norm"], false);
}

TEST_CASE("a post-norm model's logits, gradients and 20 training steps are PyTorch's") {
  check_model(fixture()["post_norm"], true);
}

}  // namespace
}  // namespace quern
