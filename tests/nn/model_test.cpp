#include "quern/nn/model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "nn/cases.hpp"
#include "quern/kernels/loss.hpp"
#include "reference/check.hpp"
#include "reference/transformer.hpp"

namespace quern {
namespace {

using reference::Dual;
using reference::Sequences;
using test::Case;
using test::cases;
using test::small;

/// Ids and targets of B sequences of T tokens; some targets are ignored.
Sequences some_sequences(std::int64_t B, std::int64_t T) {
  Sequences s{{}, {}, B, T};
  for (std::int64_t i = 0; i < B * T; ++i) {
    s.ids.push_back(static_cast<std::int32_t>((i * i + 2 * i + i / 3) % 7));
    s.targets.push_back(i % 5 == 3 ? ignored_target : static_cast<std::int32_t>((3 * i + 1) % 7));
  }
  return s;
}

Sequences part(const Sequences& whole, std::int64_t begin, std::int64_t n) {
  const auto cut = [&](const std::vector<std::int32_t>& x) {
    return std::vector<std::int32_t>(x.begin() + begin * whole.length,
                                     x.begin() + (begin + n) * whole.length);
  };
  return {cut(whole.ids), cut(whole.targets), n, whole.length};
}

double valid_targets(const Sequences& s) {
  return static_cast<double>(
      std::count_if(s.targets.begin(), s.targets.end(), [](auto t) { return t >= 0; }));
}

/// The initial weights, biases and gains moved off 0 and 1, where their gradients would be special.
void initialise(ParamStore& store) {
  store.initialise(11);
  for (Parameter& p : store.all()) {
    if (p.shape.size() != 1) continue;
    const auto noise = reference::normal(p.size(), site_hash(p.name), 0.2);
    for (std::int64_t i = 0; i < p.size(); ++i) p.slot.value.f32()[i] += noise[static_cast<std::size_t>(i)];
  }
}

RandomContext random_at(std::uint64_t first_sequence) { return {5, 3, first_sequence}; }

/// One forward and backward pass; gradients add to those of the step.
Loss run(Model& model, Workspace& workspace, const Sequences& s, double normaliser, float label_smoothing,
         std::uint64_t first_sequence = 0, Recompute recompute = Recompute::none) {
  Tape tape(workspace, Mode::train, random_at(first_sequence), recompute);
  const Loss loss =
      model.loss(tape, {s.ids.data(), s.batch, s.length}, s.targets.data(), normaliser, label_smoothing);
  tape.backward();
  return loss;
}

/// The gradients of a step that `passes` makes up, by parameter.
reference::Parameters<float> gradients_of(Model& model, const std::function<void(Workspace&)>& passes) {
  ParamStore& store = model.parameters();
  Workspace workspace;
  std::fill_n(store.gradients(), store.slab_size(), std::numeric_limits<float>::quiet_NaN());
  store.begin_step();
  passes(workspace);
  store.complete_gradients();
  reference::Parameters<float> gradients;
  for (const Parameter& p : store.all())
    if (!p.fixed) gradients[p.name].assign(p.slot.grad.f32(), p.slot.grad.f32() + p.size());
  return gradients;
}

void check_equal(const reference::Parameters<float>& actual, const reference::Parameters<float>& wanted,
                 double tolerance) {
  for (const auto& [name, gradient] : wanted) {
    CAPTURE(name);
    CHECK(reference::relative_error(actual.at(name), gradient) <= tolerance);
  }
}

reference::Parameters<Dual> constants(const Model& model) {
  reference::Parameters<Dual> parameters;
  for (const Parameter& p : model.parameters().all()) {
    const float* w = p.slot.value.f32();
    parameters[p.name].assign(w, w + p.size());
  }
  return parameters;
}

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += double(v) * double(v);
  return std::sqrt(sum);
}

TEST_CASE("a 2-layer model's gradient is the Dual one along random directions") {
  for (const Case& c : cases(12)) {
    CAPTURE(c.name, c.config.dropout);
    Model model(c.config, true);
    initialise(model.parameters());
    const Sequences batch = some_sequences(2, 5);
    const double normaliser = valid_targets(batch);
    Loss loss;
    const auto gradients = gradients_of(
        model, [&](Workspace& w) { loss = run(model, w, batch, normaliser, c.label_smoothing, 9); });
    auto point = constants(model);
    const reference::Decoder<Dual> decoder(c.config, point, batch, random_at(9));
    CHECK(loss.smoothed / normaliser ==
          Approx(decoder.loss(normaliser, c.label_smoothing).value).epsilon(1e-6));
    for (const auto& [name, gradient] : gradients) {
      for (std::uint64_t round = 0; round < 3; ++round) {
        CAPTURE(name, round);
        const auto direction = reference::normal(static_cast<std::int64_t>(gradient.size()), round + 1);
        double ours = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          point[name][i].slope = direction[i];
          ours += double(gradient[i]) * double(direction[i]);
        }
        const double wanted = decoder.loss(normaliser, c.label_smoothing).slope;
        // Each of the gradient's numbers is off by some 1e-6 of its norm at most.
        CHECK(std::abs(ours - wanted) < 1e-5 * norm(gradient) * norm(direction));
      }
      for (Dual& x : point[name]) x.slope = 0;
    }
  }
}

TEST_CASE("every number of a tiny model's gradient is the Dual one") {
  for (const Case& c : cases(4)) {
    CAPTURE(c.name, c.config.dropout);
    Model model(c.config, true);
    initialise(model.parameters());
    const Sequences batch = some_sequences(2, 4);
    const double normaliser = valid_targets(batch);
    const auto gradients =
        gradients_of(model, [&](Workspace& w) { run(model, w, batch, normaliser, c.label_smoothing, 4); });
    auto point = constants(model);
    const reference::Decoder<Dual> decoder(c.config, point, batch, random_at(4));
    for (const auto& [name, gradient] : gradients) {
      CAPTURE(name);
      std::vector<double> wanted;
      for (Dual& x : point[name]) {
        x.slope = 1;
        wanted.push_back(decoder.loss(normaliser, c.label_smoothing).slope);
        x.slope = 0;
      }
      // 1e-5; twice that for a norm's gain, which sums products over all rows and heads that cancel, and
      // with general scores, which are a product more.
      const bool twice = name.ends_with("_norm.weight") || c.config.score == ScoreKind::general;
      // Scores that are not scaled are larger by sqrt(D), and so is what rounding does to the weights; the
      // levels without fused products round them twice.
      const ModelConfig& m = c.config;
      const double larger =
          m.score == ScoreKind::dot ? 2 * std::sqrt(static_cast<double>(m.d_model / m.n_heads)) : 1;
      CHECK(reference::relative_error(gradient, wanted) < larger * (twice ? 2e-5 : 1e-5));
    }
  }
}

TEST_CASE("4 micro-batches of 2 equal 1 of 8, with dropout") {
  for (const Case& c : cases(16)) {
    CAPTURE(c.name, c.config.dropout);
    Model model(c.config, true);
    initialise(model.parameters());
    const Sequences all = some_sequences(8, 6);
    const double normaliser = valid_targets(all);
    double whole_loss = 0, parts_loss = 0;
    const auto whole = gradients_of(model, [&](Workspace& w) {
      whole_loss = run(model, w, all, normaliser, c.label_smoothing).smoothed;
    });
    const auto parts = gradients_of(model, [&](Workspace& w) {
      for (std::int64_t begin = 0; begin < 8; begin += 2)
        parts_loss += run(model, w, part(all, begin, 2), normaliser, c.label_smoothing,
                          static_cast<std::uint64_t>(begin))
                          .smoothed;
    });
    CHECK(parts_loss == Approx(whole_loss).epsilon(1e-6));
    check_equal(parts, whole, 1e-6);  // sums of at most 48 rows in another order: a few units of 6e-8
  }
}

TEST_CASE("what is made again in backward has the same bits: loss, gradients, dropout") {
  const Sequences s = some_sequences(3, 6);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const Case& c : cases(16)) {
      CAPTURE(c.name, c.config.dropout, type == Type::bf16);
      Model model(c.config, true, type);
      initialise(model.parameters());
      model.parameters().refresh_shadow();
      Loss kept, again;
      const auto gradients = [&](Loss& loss, Recompute part) {
        return gradients_of(model, [&](Workspace& w) {
          loss = run(model, w, s, valid_targets(s), c.label_smoothing, 0, part);
        });
      };
      const auto wanted = gradients(kept, Recompute::none);
      for (const Recompute part : {Recompute::block, Recompute::attention}) {
        CHECK(gradients(again, part) == wanted);
        CHECK(again.nll == kept.nll);
      }
    }
  }
}

TEST_CASE("with blocks made again a layer costs the memory of the stream and the branch alone") {
  ModelConfig config = small(64, 4, NormPlacement::pre, PositionKind::rope, Activation::swiglu, true);
  const Sequences s = some_sequences(8, 6);
  const auto bytes = [&](std::int64_t layers, Recompute part) {
    config.n_layers = layers;
    Model model(config, true);
    initialise(model.parameters());
    Workspace w;
    model.parameters().begin_step();
    run(model, w, s, valid_targets(s), 0, 0, part);
    return static_cast<std::int64_t>(w.pool.bytes_held());
  };
  const std::int64_t stream = 8 * 6 * 64 * 4;  // (B,T,C) of floats
  CHECK(bytes(12, Recompute::block) - bytes(4, Recompute::block) == 8 * 2 * stream);
  const auto growth = [&](Recompute part) { return bytes(12, part) - bytes(4, part); };
  // Kept without: the stream twice, q, k, v, the attention's output and (gated) 4 C of pre-activations. With
  // the attention made again its output is kept as the input of the next norm, and q, k, v are not.
  CHECK(growth(Recompute::attention) < growth(Recompute::none) - 8 * 2 * stream);
}

TEST_CASE("micro-batches with 1 and 9 valid targets equal one batch of 10") {
  ModelConfig config = small(16, 2, NormPlacement::pre, PositionKind::learned, Activation::gelu, true);
  config.context_length = 10;
  Model model(config, true);
  initialise(model.parameters());
  Sequences all = some_sequences(2, 10);
  for (std::size_t i = 0; i < 20; ++i)
    all.targets[i] = i == 4 || (i >= 10 && i != 13) ? static_cast<std::int32_t>(i % 7) : ignored_target;
  REQUIRE(valid_targets(all) == 10);
  const auto whole = gradients_of(model, [&](Workspace& w) { run(model, w, all, 10, 0.1F); });
  const auto parts = gradients_of(model, [&](Workspace& w) {
    CHECK(run(model, w, part(all, 0, 1), 10, 0.1F, 0).targets == 1);
    CHECK(run(model, w, part(all, 1, 1), 10, 0.1F, 1).targets == 9);
  });
  check_equal(parts, whole, 1e-6);
}

TEST_CASE("a sequence whose targets are all ignored changes nothing, alone it gives zeros") {
  const ModelConfig config =
      small(16, 2, NormPlacement::post, PositionKind::sinusoidal, Activation::relu, false);
  Model model(config, true);
  initialise(model.parameters());
  Sequences both = some_sequences(2, 6);
  std::fill(both.targets.begin() + 6, both.targets.end(), ignored_target);
  const double normaliser = valid_targets(both);
  const auto with = gradients_of(model, [&](Workspace& w) { run(model, w, both, normaliser, 0.1F); });
  const auto without =
      gradients_of(model, [&](Workspace& w) { run(model, w, part(both, 0, 1), normaliser, 0.1F); });
  check_equal(with, without, 1e-6);
  const auto nothing = gradients_of(model, [&](Workspace& w) {
    const Loss loss = run(model, w, part(both, 1, 1), normaliser, 0.1F);
    CHECK(loss.targets == 0);
    CHECK(loss.nll == 0);
    CHECK(loss.smoothed == 0);
  });
  for (const auto& [name, gradient] : nothing) CHECK(norm(gradient) == 0);
}

TEST_CASE("in bf16 loss and gradients are those of f32 but for its rounding") {
  // Every activation rounds by 2^-9 at most. A gradient's way through two layers and back passes some twenty
  // such roundings, which add up like a random walk: about 1 %, and three times that here.
  for (const Case& c : cases(16)) {
    CAPTURE(c.name);
    Model exact(c.config, true), rounded(c.config, true, Type::bf16);
    for (Model* model : {&exact, &rounded}) {
      initialise(model->parameters());
      model->parameters().refresh_shadow();
    }
    const Sequences batch = some_sequences(2, 6);
    Loss loss, half_loss;
    const auto wanted =
        gradients_of(exact, [&](Workspace& w) { loss = run(exact, w, batch, 9, c.label_smoothing); });
    const auto found = gradients_of(
        rounded, [&](Workspace& w) { half_loss = run(rounded, w, batch, 9, c.label_smoothing); });
    CHECK(half_loss.nll == Approx(loss.nll).epsilon(0.01));
    CHECK(half_loss.nll != loss.nll);
    double error = 0, total = 0;
    for (const auto& [name, gradient] : wanted)
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        error += std::pow(double(found.at(name)[i]) - double(gradient[i]), 2);
        total += std::pow(double(gradient[i]), 2);
      }
    CHECK(std::sqrt(error / total) < 0.03);
  }
}

TEST_CASE("a frozen parameter takes no gradient and leaves the others' as they are") {
  for (const Case& c : cases(16)) {
    const Sequences batch = some_sequences(2, 6);
    const auto pass = [&](Model& model) {
      return gradients_of(model, [&](Workspace& w) { run(model, w, batch, 9, c.label_smoothing); });
    };
    Model model(c.config, true);
    initialise(model.parameters());
    const auto all = pass(model);
    for (Parameter& frozen : model.parameters().all()) {
      if (frozen.fixed) continue;
      CAPTURE(c.name, frozen.name);
      frozen.slot.needs_grad = false;
      auto rest = pass(model);
      frozen.slot.needs_grad = true;
      CHECK(norm(rest.at(frozen.name)) == 0);
      rest[frozen.name] = all.at(frozen.name);
      CHECK(rest == all);
    }
  }
}

TEST_CASE("logits of Mode::infer are those that the loss is made of") {
  for (const Case& c : cases(16)) {
    CAPTURE(c.name);
    if (c.config.dropout != 0) continue;
    Model model(c.config, true);
    initialise(model.parameters());
    const Sequences batch = some_sequences(2, 6);
    Workspace workspace;
    Tape tape(workspace, Mode::infer);
    const Tensor logits = model.logits(tape, {batch.ids.data(), 2, 6}).value();
    const std::vector<double> wide(logits.f32(), logits.f32() + logits.size());
    const auto wanted = reference::cross_entropy(wide, batch.targets, c.label_smoothing);
    Loss loss;
    gradients_of(model, [&](Workspace& w) { loss = run(model, w, batch, 1, c.label_smoothing); });
    CHECK(loss.nll == Approx(wanted.nll).epsilon(1e-6));
    CHECK(loss.smoothed == Approx(wanted.smoothed).epsilon(1e-6));
    CHECK(loss.targets == wanted.targets);
  }
}

}  // namespace
}  // namespace quern
