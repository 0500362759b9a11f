// A NaN or an infinity anywhere in a step is found in that step, before the update.
#include <cstring>
#include <limits>

#include "catch.hpp"
#include "quern/base/bf16.hpp"
#include "quern/train/trainer.hpp"

using namespace quern;

namespace {

void put_number(const Tensor& to, float value) {
  if (to.type == Type::f32) {
    to.f32()[0] = value;
  } else {
    static_cast<bf16*>(to.data)[0] = to_bf16(value);
  }
}

struct Subject {
  Config config;
  Model model;
  Workspace workspace;
  std::vector<std::int32_t> ids;
  TrainBatches batches;

  explicit Subject(const Config& c)
      : config(c),
        model(c.model, true, type_of(c.run.precision)),
        ids(numbers()),
        batches(WindowSampler(TokenView(ids), c.model.context_length, WindowOrder::random, 1,
                              c.run.batch_size * c.run.grad_accumulation),
                c.run.batch_size) {
    model.parameters().initialise(1);
    train_step(model, workspace, batches, config, 1);  // so that moments are not zero
  }

  static std::vector<std::int32_t> numbers() {
    std::vector<std::int32_t> ids(500);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 11);
    return ids;
  }
  StepResult step() { return train_step(model, workspace, batches, config, 2); }

  /// Weights, their copy in bf16 and moments.
  std::string state() {
    ParamStore& p = model.parameters();
    const auto bytes = static_cast<std::size_t>(p.slab_size()) * sizeof(float);
    std::string all;
    for (const float* slab : {p.values(), p.first_moments(), p.second_moments()})
      all.append(reinterpret_cast<const char*>(slab), bytes);
    if (p.shadow() != nullptr) all.append(reinterpret_cast<const char*>(p.shadow()), bytes / 2);
    return all;
  }
};

/// A tensor of a step: the phase and the operation that had it at hand, its place among that one's.
struct Place {
  Phase phase;
  std::string operation;
};

/// Calls `at(number, tensor, place)` for every output's value and every input's gradient of a step's
/// operations.
template <class At>
void visit(Workspace& workspace, At at) {
  workspace.inspect = [at, number = 0](const Node& node, Phase phase) mutable {
    const bool forward = phase == Phase::forward;
    for (int i = 0; i < (forward ? node.output_count : node.input_count); ++i) {
      const Slot& slot = forward ? *node.outputs[i] : *node.inputs[i];
      const Tensor& tensor = forward ? slot.value : slot.grad;
      if (!tensor || (!forward && !slot.written)) continue;
      at(number++, tensor, Place{phase, node.name});
    }
  };
}

std::vector<Place> places_of(Subject& subject) {
  std::vector<Place> places;
  visit(subject.workspace, [&](int, const Tensor&, const Place& place) { places.push_back(place); });
  subject.step();
  subject.workspace.inspect = nullptr;
  return places;
}

Config config_of(PositionKind position, NormKind norm, Activation activation) {
  Config config;
  config.model.d_model = 16;
  config.model.n_layers = 2;
  config.model.n_heads = 2;
  config.model.context_length = 12;
  config.model.vocab_size = 11;
  config.model.dropout = 0.1;
  config.model.position = position;
  config.model.norm = norm;
  config.model.activation = activation;
  config.run.batch_size = 3;
  config.run.threads = 1;
  return config;
}

}  // namespace

TEST_CASE("a NaN or an infinity in any tensor of any operation stops the step, and nothing is updated") {
  Config parts = config_of(PositionKind::rope, NormKind::rmsnorm, Activation::swiglu);
  parts.run.grad_accumulation = 2;
  Config recomputing = parts;
  recomputing.run.recompute = Recompute::block;
  Config half = config_of(PositionKind::alibi, NormKind::rmsnorm, Activation::silu);
  half.run.precision = Precision::bf16;
  Config post = config_of(PositionKind::sinusoidal, NormKind::layernorm, Activation::relu);
  post.model.norm_placement = NormPlacement::post;
  for (const Config& config : {config_of(PositionKind::learned, NormKind::layernorm, Activation::gelu),
                               config_of(PositionKind::learned, NormKind::layernorm, Activation::relu2), post,
                               parts, recomputing, half}) {
    Subject subject(config);
    const std::vector<Place> places = places_of(subject);
    REQUIRE(places.size() > 40);
    for (int bad = 0; bad < static_cast<int>(places.size()); ++bad) {
      // What a block makes again is what it made before, which the same model without recomputing shows.
      if (config.run.recompute == Recompute::block && places[std::size_t(bad)].phase == Phase::forward)
        continue;
      for (const float value :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
            -std::numeric_limits<float>::infinity()}) {
        Subject victim(config);
        const std::string before = victim.state();
        const int all = static_cast<int>(places.size());
        visit(victim.workspace, [&](int number, const Tensor& tensor, const Place&) {
          if (number % all == bad) put_number(tensor, value);  // and again when the step is repeated
        });
        const StepResult result = victim.step();
        CAPTURE(enum_name(config.model.activation), bad, value, name(places[std::size_t(bad)].phase),
                places[std::size_t(bad)].operation, result.nonfinite, result.loss, result.gradient_norm);
        CHECK(!result.nonfinite.empty());
        CHECK(result.nonfinite.find(places[std::size_t(bad)].operation) != std::string::npos);
        CHECK(result.nonfinite.find("the windows that begin at ") != std::string::npos);
        CHECK((victim.state() == before));
      }
    }
  }
}

TEST_CASE("a bad weight is named, and found in the step that it takes part in") {
  Subject subject(config_of(PositionKind::learned, NormKind::layernorm, Activation::gelu));
  for (Parameter& p : subject.model.parameters().all()) {
    const float before = p.slot.value.f32()[0];
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      p.slot.value.f32()[0] = value;
      const StepResult result = subject.step();
      CAPTURE(p.name, value);
      CHECK(result.nonfinite.find("first bad tensor: " + p.name + " (value)") != std::string::npos);
    }
    p.slot.value.f32()[0] = before;
  }
  CHECK(subject.step().nonfinite.empty());
}

TEST_CASE("a gradient whose square no float holds does not reach the moments") {
  Config config = config_of(PositionKind::learned, NormKind::layernorm, Activation::gelu);
  config.optim.grad_clip = 0;
  Subject subject(config);
  bool once = true;
  subject.workspace.inspect = [&](const Node& node, Phase phase) {
    if (phase != Phase::backward || !once) return;
    for (int i = 0; i < node.input_count; ++i)
      if (node.inputs[i]->written) node.inputs[i]->grad.f32()[0] = 1e20F;
    once = false;
  };
  const std::string before = subject.state();
  const StepResult result = subject.step();
  CHECK(std::isfinite(result.gradient_norm));
  CHECK(result.nonfinite.find("square is not finite") != std::string::npos);
  CHECK((subject.state() == before));
  once = true;
  subject.config.optim.grad_clip = 1;
  CHECK(subject.step().nonfinite.empty());
}
