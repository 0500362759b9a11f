#include "quern/train/optimizer.hpp"

#include <array>
#include <limits>
#include <span>

#include "reference/check.hpp"
#include "reference/muon.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

/// A matrix that decays, a bias that does not, with gradients.
struct Fixture {
  ParamStore store;
  Parameter& matrix = store.add("m", {3, 7}, true, Init::normal(1));
  Parameter& bias = store.add("b", {5}, false, Init::constant(2));

  Fixture() {
    store.allocate(true);
    store.initialise(7);
    store.begin_step();
    const auto g = normal(21, 3);
    std::copy(g.begin(), g.end(), matrix.slot.grad.f32());
    matrix.slot.written = true;
  }
};

}  // namespace

TEST_CASE("an unwritten gradient is completed to zero, whatever the slab held") {
  Fixture f;
  std::fill_n(f.bias.slot.grad.f32(), 5, std::numeric_limits<float>::quiet_NaN());
  f.store.complete_gradients();
  for (int i = 0; i < 5; ++i) CHECK(f.bias.slot.grad.f32()[i] == 0);
  double sum = 0;
  for (int i = 0; i < 21; ++i) sum += double{f.matrix.slot.grad.f32()[i]} * f.matrix.slot.grad.f32()[i];
  CHECK(gradient_norm(f.store) == Approx(std::sqrt(sum)).epsilon(1e-12));
}

TEST_CASE("clipping scales to the norm and never up") {
  CHECK(clip_factor(4, 1) == 0.25);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(4, 0) == 1);
}

TEST_CASE("matrices decay, biases never: with a zero gradient only the matrix shrinks") {
  Fixture f;
  f.store.begin_step();
  f.store.complete_gradients();
  const float before = f.matrix.slot.value.f32()[4];
  OptimConfig optim;
  optim.weight_decay = 0.5;
  Pool pool;
  update(f.store, optim, 0.1, 1, 1, pool);
  CHECK(f.matrix.slot.value.f32()[4] == Approx(before * (1 - 0.1 * 0.5)).epsilon(1e-6));
  for (int i = 0; i < 5; ++i) CHECK(f.bias.slot.value.f32()[i] == 2);
}

TEST_CASE("what is not finite is found by name") {
  Fixture f;
  f.store.complete_gradients();
  CHECK(first_nonfinite_value(f.store).empty());
  CHECK(first_nonfinite_gradient(f.store).empty());
  f.matrix.slot.value.f32()[20] = std::numeric_limits<float>::infinity();
  CHECK(first_nonfinite_value(f.store) == "m");
  f.bias.slot.grad.f32()[2] = std::numeric_limits<float>::quiet_NaN();
  CHECK(first_nonfinite_gradient(f.store) == "b");
}

TEST_CASE(
    "muon takes each matrix between activations by itself, adamw the rest, at rates of the same course") {
  const auto make = [](ParamStore& store) -> std::array<Parameter*, 3> {
    Parameter& packed = store.add("packed", {6, 5}, true, Init::normal(1));
    packed.matrices = {4, 2};
    Parameter& table = store.add("table", {3, 5}, true, Init::normal(1));
    Parameter& bias = store.add("bias", {7}, false, Init::constant(1));
    store.allocate(true);
    store.initialise(7);
    store.begin_step();
    for (Parameter* p : {&packed, &table, &bias}) {
      const auto g = normal(p->size(), site_hash(p->name));
      std::copy(g.begin(), g.end(), p->slot.grad.f32());
      p->slot.written = true;
    }
    return {&packed, &table, &bias};
  };
  ParamStore mixed, adam;
  const auto m = make(mixed), a = make(adam);
  std::vector<double> top(20), bottom(10), top_momentum(20), bottom_momentum(10);
  std::copy_n(m[0]->slot.value.f32(), 20, top.begin());
  std::copy_n(m[0]->slot.value.f32() + 20, 10, bottom.begin());
  const auto gradient = widen(normal(30, site_hash("packed")));

  OptimConfig optim;
  optim.learning_rate = 0.01;
  optim.muon_learning_rate = 0.2;
  Pool pool;
  const auto values = [](ParamStore& store) {
    return widen({store.values(), store.values() + store.slab_size()});
  };
  const auto before = values(mixed);
  const auto moved = [&](ParamStore& store) {  // |change| / |weights|
    double change = 0, weights = 0;
    const auto after = values(store);
    for (std::size_t i = 0; i < before.size(); ++i) {
      change += std::pow(after[i] - before[i], 2);
      weights += std::pow(before[i], 2);
    }
    return std::sqrt(change / weights);
  };
  // Floats, added up in lanes of 64, are off by 4e-6; a change of about 0.01 is rounded to 6e-6 of itself.
  CHECK(std::abs(update(adam, optim, 0.005, 0.5, 1, pool) / moved(adam) - 1) < 1e-5);
  optim.optimizer = OptimizerKind::muon;
  // Half of the peak: Muon's rate is 0.1.
  CHECK(std::abs(update(mixed, optim, 0.005, 0.5, 1, pool) / moved(mixed) - 1) < 1e-5);

  const Muon muon{.learning_rate = 0.1F, .momentum = 0.95F, .weight_decay = 0.1F, .gradient_scale = 0.5F};
  reference::muon(top, {gradient.begin(), gradient.begin() + 20}, top_momentum, 4, 5, muon);
  reference::muon(bottom, {gradient.begin() + 20, gradient.end()}, bottom_momentum, 2, 5, muon);
  const float* packed = m[0]->slot.value.f32();
  CHECK(relative_error(std::span(packed, 20), top) < 1e-5);  // see muon_test: well-conditioned, so far below
  CHECK(relative_error(std::span(packed + 20, 10), bottom) < 1e-5);
  for (const std::size_t i : {1U, 2U})
    CHECK(std::equal(m[i]->slot.value.f32(), m[i]->slot.value.f32() + m[i]->size(), a[i]->slot.value.f32()));
}

TEST_CASE("an update states its traffic and its arithmetic as by hand, and what it borrows") {
  ParamStore store;
  store.add("w", {4, 8}, true, Init::constant(1)).matrices = {4};
  store.add("b", {16}, false, Init::constant(1));
  store.allocate(true);
  store.initialise(1);
  store.complete_gradients();
  OptimConfig optim;
  CHECK(optimizer_cost(store, optim).norm.bytes == 4 * 48);
  CHECK(optimizer_cost(store, optim).adamw.bytes == 7 * 4 * 48);
  optim.optimizer = OptimizerKind::muon;
  const OptimizerCost cost = optimizer_cost(store, optim);
  CHECK(cost.adamw.bytes == 7 * 4 * 16);
  CHECK(cost.muon.flops == 5 * (2 * 2 * 4 * 4 * 8 + 2 * 4 * 4 * 4));
  CHECK(cost.muon.bytes == 4 * (21 * 32 + 5 * (6 * 32 + 7 * 16)));
  CHECK(cost.scratch == 4 * (2 * 32 + 2 * 16));

  Pool pool;
  Profile profile;
  profile.start();
  gradient_norm(store);
  update(store, optim, optim.learning_rate, 1, 1, pool);
  profile.stop();
  Cost sum;
  for (const Slice& slice : profile.slices())
    if (slice.phase == Phase::optimizer) sum = sum + slice.cost;
  const Cost all = cost.norm + cost.adamw + cost.muon;
  CHECK(sum.flops == all.flops);
  CHECK(sum.bytes == all.bytes);
}
