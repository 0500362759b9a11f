#include "quern/train/optimizer.hpp"

#include <limits>

#include "reference/check.hpp"

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
  update(f.store, optim, 0.1, 1, 1);
  CHECK(f.matrix.slot.value.f32()[4] == Approx(before * (1 - 0.1 * 0.5)).epsilon(1e-6));
  for (int i = 0; i < 5; ++i) CHECK(f.bias.slot.value.f32()[i] == 2);
}

TEST_CASE("what is not finite is found by name, gradients before values") {
  Fixture f;
  f.store.complete_gradients();
  CHECK(first_nonfinite_parameter(f.store).empty());
  f.matrix.slot.value.f32()[20] = std::numeric_limits<float>::infinity();
  CHECK(first_nonfinite_parameter(f.store) == "m (value)");
  f.bias.slot.grad.f32()[2] = std::numeric_limits<float>::quiet_NaN();
  CHECK(first_nonfinite_parameter(f.store) == "b (gradient)");
}
