// A NaN or an infinity anywhere in a step is found in that step, before the update.
#include <cstring>
#include <filesystem>
#include <limits>
#include <regex>
#include <set>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/bf16.hpp"
#include "quern/train/session.hpp"
#include "quern/train/trainer.hpp"

using namespace quern;

namespace {

/// At the end of the first row: of what a reader takes in columns, the first may be nobody's.
void put_number(const Tensor& to, float value) {
  char* const at = to.at(to.rank > 0 ? (to.last() - 1) * to.stride[to.rank - 1] : 0);
  const bf16 half = to_bf16(value);
  if (to.type == Type::f32) std::memcpy(at, &value, sizeof value);
  if (to.type == Type::bf16) std::memcpy(at, &half, sizeof half);
}

/// What the models learn from: texts of a few tokens, and lines with numbers.
struct Texts {
  test::TemporaryDirectory directory;

  Texts() {
    std::string text, values;
    for (int i = 0; i < 500; ++i) text += static_cast<char>('a' + i * i % 11);
    for (int i = 0; i < 40; ++i)
      values += "count " + std::to_string(i * 7 % 13) + "\t" + std::to_string(i) + "\n";
    test::put(directory / "text", text);
    test::put(directory / "values.tsv", values);
  }
  std::string of(const char* name) const { return "data.text=" + (directory / name).string(); }
};

struct Kind {
  const char* name;
  std::vector<std::string> sets;
};

/// Every operation that a model has, and what recomputing, micro-batches and bf16 change.
std::vector<Kind> kinds(const Texts& texts) {
  const std::string text = texts.of("text");
  return {
      {"gelu", {text}},
      {"gelu_erf", {text, "model.activation=gelu_erf", "model.qk_norm=true", "model.n_kv_heads=1"}},
      {"relu2", {text, "model.activation=relu2"}},
      {"post", {text, "model.activation=relu", "model.position=sinusoidal", "model.norm_placement=post"}},
      {"parts",
       {text, "model.activation=swiglu", "model.position=rope", "model.norm=rmsnorm",
        "run.grad_accumulation=2"}},
      {"recompute",
       {text, "model.activation=geglu", "model.position=rope", "model.norm=rmsnorm", "run.recompute=block"}},
      {"recompute attention", {text, "model.activation=geglu", "run.recompute=attention"}},
      {"recompute cross",
       {"model.architecture=encoder_decoder", "data.task=copy", "run.recompute=attention"}},
      {"bf16",
       {text, "model.activation=silu", "model.position=alibi", "model.norm=rmsnorm", "run.precision=bf16"}},
      {"masked", {text, "model.architecture=encoder"}},
      {"window",
       {text, "model.attention=sliding_window", "model.window=4", "model.global_tokens=1",
        "model.position=none"}},
      {"elu", {text, "model.attention=linear"}},
      {"favor", {text, "model.attention=linear", "model.feature_map=favor", "model.position=rope"}},
      {"gru", {text, "model.architecture=rnn"}},
      {"lstm", {text, "model.architecture=rnn", "model.cell=lstm"}},
      {"lstm bf16", {text, "model.architecture=rnn", "model.cell=lstm", "run.precision=bf16"}},
      {"bahdanau",
       {"model.architecture=rnn", "model.score=additive", "model.n_layers=1", "data.task=reverse"}},
      {"luong", {"model.architecture=rnn", "model.score=general", "model.cell=lstm", "data.task=reverse"}},
      {"dot", {"model.architecture=encoder_decoder", "model.score=dot", "data.task=copy"}},
      {"additive", {"model.architecture=encoder_decoder", "model.score=additive", "data.task=copy"}},
      {"low rank",
       {"model.architecture=encoder", "model.attention=low_rank", "model.rank=4", "data.task=parity"}},
      {"regression", {"model.architecture=encoder", "data.task=regression", texts.of("values.tsv")}},
      {"vit",
       {"model.architecture=vit", "data.task=shapes", "data.val_examples=4", "model.context_length=40"}},
  };
}

RunPlan plan_of(const Kind& kind) {
  std::vector<std::string> sets = {
      "model.d_model=16",        "model.n_heads=2", "model.n_layers=2", "model.dropout=0.1",
      "model.context_length=16", "data.length=5",   "run.batch_size=3", "run.threads=1"};
  sets.insert(sets.end(), kind.sets.begin(), kind.sets.end());
  return plan_run({}, sets);
}

struct Subject {
  Config config;
  Model model;
  Workspace workspace;
  TrainBatches batches;

  explicit Subject(const RunPlan& plan)
      : config(plan.config),
        model(config.model, true, type_of(config.run.precision)),
        batches(config, plan.data) {
    model.parameters().initialise(1);
    train_step(model, workspace, batches, config, 1);  // so that moments are not zero
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

/// A tensor of a step: the phase and the operation that had it at hand, and whose that is.
struct Place {
  Phase phase;
  std::string operation, module;
  bool again;  // made again in backward

  std::string text() const { return operation + (module.empty() ? "" : " in " + module); }
};

/// Calls `at(number, tensor, place)` for every output's value and every input's gradient of a step's
/// operations.
template <class At>
void visit(Workspace& workspace, At at) {
  workspace.inspect = [at, number = 0, back = false](const Node& node, Phase phase) mutable {
    const bool forward = phase == Phase::forward;
    back = back || !forward;
    for (int i = 0; i < (forward ? node.output_count : node.input_count); ++i) {
      const Slot& slot = forward ? *node.outputs[i] : *node.inputs[i];
      const Tensor& tensor = forward ? slot.value : slot.grad;
      if (!tensor || (!forward && !slot.written)) continue;
      at(number++, tensor, Place{phase, node.name, std::string(node.module), back && forward});
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

constexpr float not_finite[] = {std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity()};

/// The first number of a parameter that took part in the step before, as its gradient tells.
std::int64_t number_in_use(const Parameter& p) {
  for (std::int64_t i = 0; !p.fixed && i < p.size(); ++i)
    if (p.slot.grad.f32()[i] != 0) return i;
  return 0;
}

}  // namespace

TEST_CASE("a NaN or an infinity in any tensor of any operation stops the step, and nothing is updated") {
  const Texts texts;
  for (const Kind& kind : kinds(texts)) {
    const RunPlan plan = plan_of(kind);
    Subject healthy(plan), victim(plan);
    const std::vector<Place> places = places_of(healthy);
    REQUIRE(places.size() > 20);
    const std::string before = victim.state();
    for (int bad = 0; bad < static_cast<int>(places.size()); ++bad) {
      const Place& place = places[static_cast<std::size_t>(bad)];
      // What backward makes again is what forward made, and not all of it is read a second time.
      if (place.again && plan.config.run.recompute != Recompute::none) continue;
      for (const float value : not_finite) {
        const int all = static_cast<int>(places.size());
        visit(victim.workspace, [&](int number, const Tensor& tensor, const Place&) {
          if (number % all == bad) put_number(tensor, value);  // and again when the step is repeated
        });
        const StepResult result = victim.step();
        CAPTURE(kind.name, bad, value, name(place.phase), place.operation, result.nonfinite, result.loss,
                result.gradient_norm);
        CHECK(!result.nonfinite.empty());
        CHECK(result.nonfinite.find(place.text()) != std::string::npos);
        CHECK(result.nonfinite.find(plan.data.corpus ? "the windows that begin at "
                                                     : "the training examples ") != std::string::npos);
        REQUIRE((victim.state() == before));
      }
    }
  }
}

TEST_CASE("a bad number in what is made again is named by its operation and its block") {
  const Texts texts;
  for (const char* part : {"none", "block", "attention"}) {
    const RunPlan plan =
        plan_of({part, {texts.of("text"), std::string("run.recompute=") + part, "model.position=learned"}});
    Subject subject(plan);
    // A weight that is finite, and whose product with the others is not.
    for (Parameter& p : subject.model.parameters().all())
      if (p.name == "decoder.blocks.1.attention.qkv.weight") std::fill_n(p.slot.value.f32(), p.size(), 3e38F);
    const std::string found = subject.step().nonfinite;
    CAPTURE(part, found);
    CHECK(found.find("the output of linear in decoder.blocks.1.attention.qkv;") != std::string::npos);
  }
}

TEST_CASE("every operation that the tape records by name stands in one of these models") {
  std::set<std::string> met, recorded;
  const Texts texts;
  for (const Kind& kind : kinds(texts)) {
    const RunPlan plan = plan_of(kind);
    Subject subject(plan);
    for (const Place& place : places_of(subject)) met.insert(place.operation);
  }
  const std::regex record("record\\(\\s*\"([a-z_]+)\"");
  for (const auto& file : std::filesystem::directory_iterator(QUERN_SOURCE_DIR "/src/autograd")) {
    const std::string source = test::get(file.path());
    for (auto found = std::sregex_iterator(source.begin(), source.end(), record);
         found != std::sregex_iterator(); ++found)
      recorded.insert((*found)[1]);
  }
  CHECK(recorded.size() > 10);
  for (const std::string& operation : recorded) {
    CAPTURE(operation);
    CHECK(met.contains(operation));
  }
}

TEST_CASE("a bad weight is named, and found in the step that it takes part in") {
  const Texts texts;
  for (const Kind& kind : kinds(texts)) {
    const RunPlan plan = plan_of(kind);
    Subject subject(plan);
    CHECK(subject.step().nonfinite.empty());
    ParamStore& parameters = subject.model.parameters();
    for (Parameter& p : parameters.all()) {
      float& number = p.slot.value.f32()[number_in_use(p)];
      const float before = number;
      for (const float value : not_finite) {
        number = value;
        parameters.refresh_shadow();
        const StepResult result = subject.step();
        CAPTURE(kind.name, p.name, value);
        CHECK(result.nonfinite.find("first bad tensor: " + p.name + " (value)") != std::string::npos);
      }
      number = before;
    }
    parameters.refresh_shadow();
    CHECK(subject.step().nonfinite.empty());
  }
}

TEST_CASE("a gradient whose square no float holds does not reach the moments") {
  const Texts texts;
  RunPlan plan = plan_of({"gelu", {texts.of("text")}});
  plan.config.optim.grad_clip = 0;
  Subject subject(plan);
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
