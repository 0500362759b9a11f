// Encoders and encoder-decoders: against PyTorch's layers (tests/fixtures/make_encoder_decoder.py says what
// stands in the fixture and how weights and tokens come about), and what padding may not change.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "quern/kernels/loss.hpp"
#include "quern/nn/model.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

constexpr std::int64_t V = 11, B = 3, S = 7, T = 6;
const std::vector<std::int32_t> source_lengths = {7, 4, 1}, target_lengths = {3, 6, 5};

// Rounding of f32 through 4 blocks is some 1e-6 of a tensor's largest number; a wrong formula or a padding
// that is seen shows at 1e-3 or more.
constexpr double tolerance = 2e-5;

nlohmann::json fixture() {
  std::ifstream in(QUERN_SOURCE_DIR "/tests/fixtures/encoder_decoder.json");
  return nlohmann::json::parse(in);
}

ModelConfig config_of(Architecture architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.d_model = 8;
  config.n_heads = config.n_layers = 2;
  config.d_ff = 16;
  config.vocab_size = V;
  config.context_length = 12;
  config.norm_placement = NormPlacement::post;
  config.position = PositionKind::sinusoidal;
  config.activation = Activation::relu;
  config.tie_embeddings = false;
  return config;
}

/// As the script does, in the order of the names.
void set_parameters(ParamStore& store) {
  std::map<std::string, Parameter*> by_name;
  for (Parameter& p : store.all()) by_name[p.name] = &p;
  std::int64_t k = 0;
  for (const auto& [name, p] : by_name) {
    const bool gain = name.ends_with("norm.weight");
    for (std::int64_t i = 0; i < p->size(); ++i) {
      const double u = 2 * static_cast<double>((i * i * i + 5 * i + 131 * k) % 1009) / 1009 - 1;
      p->slot.value.f32()[i] = static_cast<float>(p->shape.size() == 2 ? 0.4 * u
                                                  : gain               ? 1 + 0.3 * u
                                                                       : 0.2 * u);
    }
    ++k;
  }
}

/// (B,length); `padding` beyond the lengths.
std::vector<std::int32_t> rows(std::int64_t length, const std::vector<std::int32_t>& lengths,
                               std::int64_t salt, std::int32_t padding) {
  std::vector<std::int32_t> ids;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < length; ++t)
      ids.push_back(t < lengths[static_cast<std::size_t>(b)]
                        ? static_cast<std::int32_t>((t * t + 3 * b * t + 5 * b + salt) % V)
                        : padding);
  return ids;
}

struct Data {
  // What lies in padding is a token like others: it may not matter.
  std::vector<std::int32_t> source = rows(S, source_lengths, 0, 9), target = rows(T, target_lengths, 1, 3);
  std::vector<std::int32_t> source_classes = rows(S, source_lengths, 4, ignored_target),
                            target_classes = rows(T, target_lengths, 4, ignored_target);
  std::vector<std::int32_t> labels = {2, 0, 1};

  Tokens of_source() const { return {source.data(), B, S, nullptr, source_lengths.data()}; }
  Tokens of_target() const { return {target.data(), B, T, nullptr, target_lengths.data()}; }
};

void check_against(const nlohmann::json& wanted, const ModelConfig& config, const Input& input,
                   const std::vector<std::int32_t>& classes, float label_smoothing, Recompute recompute) {
  Model model(config, true);
  set_parameters(model.parameters());
  Workspace workspace;
  const auto counted = static_cast<double>(
      std::count_if(classes.begin(), classes.end(), [](auto c) { return c != ignored_target; }));
  model.parameters().begin_step();
  {
    Tape tape(workspace, Mode::train, {}, recompute);
    const Loss loss = model.loss(tape, input, classes.data(), counted, label_smoothing);
    CHECK(loss.smoothed / counted == Approx(wanted["loss"].get<double>()).epsilon(1e-6));
    tape.backward();
  }
  model.parameters().complete_gradients();
  CHECK(wanted["gradients"].size() == model.parameters().all().size());
  for (const Parameter& p : model.parameters().all()) {
    CAPTURE(p.name);
    REQUIRE(wanted["gradients"].contains(p.name));
    const auto torch = wanted["gradients"][p.name].get<std::vector<double>>();
    const std::vector<float> ours(p.slot.grad.f32(), p.slot.grad.f32() + p.size());
    CHECK(reference::relative_error(ours, torch) < tolerance);
  }
}

TEST_CASE("a post-norm encoder with padding has PyTorch's loss and gradients") {
  const Data data;
  ModelConfig config = config_of(Architecture::encoder);
  for (const Recompute recompute : {Recompute::none, Recompute::block, Recompute::attention}) {
    CAPTURE(static_cast<int>(recompute));
    config.head = HeadKind::tokens;
    check_against(fixture()["encoder"]["tokens"], config, {data.of_source(), {}}, data.source_classes, 0,
                  recompute);
    config.head = HeadKind::label;
    config.n_outputs = 3;
    check_against(fixture()["encoder"]["label"], config, {data.of_source(), {}}, data.labels, 0, recompute);
  }
}

TEST_CASE("an encoder-decoder with padding on both sides has PyTorch's loss and gradients") {
  const Data data;
  for (const Recompute recompute : {Recompute::none, Recompute::block, Recompute::attention})
    check_against(fixture()["encoder_decoder"], config_of(Architecture::encoder_decoder),
                  {data.of_target(), data.of_source()}, data.target_classes, 0.1F, recompute);
}

std::vector<float> logits_of(const Model& model, const Input& input) {
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  const Memory memory = input.source.ids != nullptr ? model.encode(tape, input.source) : Memory();
  const Tensor y = model.logits(tape, input.tokens, nullptr, nullptr, memory).value();
  return {y.f32(), y.f32() + y.size()};
}

/// Some models that read padded rows.
std::vector<ModelConfig> readers() {
  std::vector<ModelConfig> configs;
  for (const Architecture architecture : {Architecture::encoder, Architecture::encoder_decoder}) {
    configs.push_back(config_of(architecture));
    ModelConfig config = config_of(architecture);
    config.norm_placement = NormPlacement::pre;
    config.position = PositionKind::rope;
    config.n_kv_heads = 1;
    configs.push_back(config);
    config.qk_norm = true;
    config.score = ScoreKind::general;
    configs.push_back(config);
  }
  ModelConfig config = config_of(Architecture::encoder);
  config.attention = AttentionKind::low_rank;
  config.rank = 3;
  configs.push_back(config);
  config = config_of(Architecture::encoder);
  config.attention = AttentionKind::linear;
  configs.push_back(config);
  config = config_of(Architecture::encoder);
  config.attention = AttentionKind::sliding_window;
  config.window = 2;
  configs.push_back(config);
  return configs;
}

TEST_CASE("a row alone and inside a padded batch give the same numbers") {
  const Data data;
  for (const ModelConfig& config : readers()) {
    CAPTURE(enum_name(config.architecture), enum_name(config.attention), enum_name(config.position));
    Model model(config, false);
    model.parameters().initialise(3);
    const bool pair = config.architecture == Architecture::encoder_decoder;
    const std::int64_t length = pair ? T : S;
    const auto together = pair ? logits_of(model, {data.of_target(), data.of_source()})
                               : logits_of(model, {data.of_source(), {}});
    for (std::int64_t b = 0; b < B; ++b) {
      const auto one = [b](const std::vector<std::int32_t>& ids, std::int64_t L, std::int32_t n) {
        return Tokens{ids.data() + b * L, 1, n};
      };
      const Tokens source = one(data.source, S, source_lengths[static_cast<std::size_t>(b)]);
      const Tokens target = one(data.target, T, target_lengths[static_cast<std::size_t>(b)]);
      const auto alone = pair ? logits_of(model, {target, source}) : logits_of(model, {source, {}});
      const auto begin = together.begin() + b * length * V;
      const std::vector<float> part(begin, begin + static_cast<std::ptrdiff_t>(alone.size()));
      // The same formulas on the same numbers, summed in other tiles.
      CHECK(reference::relative_error(part, std::vector<double>(alone.begin(), alone.end())) < 1e-5);
    }
  }
}

TEST_CASE("what stands in padding reaches no gradient") {
  const Data data;
  ModelConfig config = config_of(Architecture::encoder_decoder);
  Model model(config, true);
  model.parameters().initialise(3);
  Data other;
  other.source = rows(S, source_lengths, 0, 10);
  REQUIRE(other.source != data.source);
  const auto gradients = [&](const Data& d) {
    Workspace workspace;
    model.parameters().begin_step();
    Tape tape(workspace, Mode::train);
    model.loss(tape, {d.of_target(), d.of_source()}, d.target_classes.data(), 10, 0);
    tape.backward();
    model.parameters().complete_gradients();
    return std::vector<float>(model.parameters().gradients(),
                              model.parameters().gradients() + model.parameters().slab_size());
  };
  CHECK((gradients(data) == gradients(other)));
}

TEST_CASE("a batch whose rows are all ignored, and a row of padding only, give finite zeros") {
  Data data;
  ModelConfig config = config_of(Architecture::encoder_decoder);
  Model model(config, true);
  model.parameters().initialise(3);
  std::fill(data.target_classes.begin(), data.target_classes.end(), ignored_target);
  const std::vector<std::int32_t> none = {0, 0, 0};
  Workspace workspace;
  model.parameters().begin_step();
  {
    Tape tape(workspace, Mode::train);
    const Loss loss = model.loss(tape, {data.of_target(), {data.source.data(), B, S, nullptr, none.data()}},
                                 data.target_classes.data(), 1, 0.1F);
    CHECK(loss.targets == 0);
    CHECK(loss.smoothed == 0);
    tape.backward();
  }
  model.parameters().complete_gradients();
  const float* g = model.parameters().gradients();
  CHECK(std::all_of(g, g + model.parameters().slab_size(), [](float x) { return x == 0; }));
}

}  // namespace
}  // namespace quern
