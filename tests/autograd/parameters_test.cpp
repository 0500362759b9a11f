#include "quern/autograd/parameters.hpp"

#include <cmath>
#include <cstdint>

#include "catch.hpp"

using namespace quern;

TEST_CASE("slabs: decaying parameters first, each on a cache line, views of the right place") {
  ParamStore store;
  const Parameter& bias = store.add("bias", {3}, false, Init::constant(1));
  const Parameter& matrix = store.add("matrix", {5, 7}, true, Init::constant(2));
  const Parameter& gain = store.add("gain", {1}, false, Init::constant(3));
  store.allocate(true);
  store.initialise(1);
  CHECK(store.decaying_size() == 48);
  CHECK(store.slab_size() == 48 + 16 + 16);
  CHECK(store.parameter_count() == 3 + 35 + 1);
  for (const Parameter* p : {&bias, &matrix, &gain})
    CHECK(reinterpret_cast<std::uintptr_t>(p->slot.value.data) % 64 == 0);
  CHECK(store.values()[matrix.offset + 34] == 2);
  CHECK(store.values()[bias.offset + 2] == 1);
  CHECK(store.values()[gain.offset] == 3);
}

TEST_CASE("first values are a function of seed and name alone, with the deviation asked for") {
  const auto drawn = [](std::uint64_t seed, bool first) {
    ParamStore store;
    if (!first) store.add("other", {10}, true, Init::normal(1));
    const Parameter& p = store.add("matrix", {100, 100}, true, Init::normal(0.02));
    const Parameter& u = store.add("uniform", {100, 100}, true, Init::uniform(0.5));
    store.allocate(false);
    store.initialise(seed);
    std::vector<float> out(p.slot.value.f32(), p.slot.value.f32() + 10000);
    out.insert(out.end(), u.slot.value.f32(), u.slot.value.f32() + 10000);
    return out;
  };
  const auto a = drawn(1, true);
  CHECK(a == drawn(1, false));
  CHECK(a != drawn(2, true));
  double normal = 0, uniform = 0, largest = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    normal += double{a[i]} * a[i] / 10000;
    uniform += double{a[10000 + i]} * a[10000 + i] / 10000;
    largest = std::max(largest, std::abs(double{a[10000 + i]}));
  }
  // The variance of 10,000 draws is off by sqrt(2 / 10000) = 1.4 % on average; five of those.
  CHECK(normal == Approx(0.0004).epsilon(0.07));
  CHECK(uniform == Approx(0.25 / 3).epsilon(0.07));
  CHECK(largest <= 0.5);
}

TEST_CASE("what is fixed lies behind what is trained, without gradient, and is drawn orthogonal") {
  constexpr std::int64_t M = 20, D = 8;
  ParamStore store;
  const Parameter& fixed = store.add("fixed", {M, D}, false, Init::orthogonal(), true);
  const Parameter& trained = store.add("trained", {3}, false, Init::constant(1));
  store.allocate(true);
  store.initialise(1);
  CHECK(store.slab_size() == 16);
  CHECK(store.parameter_count() == 3);
  CHECK(fixed.offset == 16);
  CHECK(trained.slot.needs_grad);
  CHECK_FALSE(fixed.slot.needs_grad);
  store.begin_step();
  store.complete_gradients();
  CHECK_FALSE(fixed.slot.written);
  const float* w = fixed.slot.value.f32();
  double squares = 0;
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double dot = 0;
      for (std::int64_t d = 0; d < D; ++d) dot += double{w[i * D + d]} * w[j * D + d];
      if (i == j) squares += dot;
      if (i != j && i / D == j / D) CHECK(std::abs(dot) < 1e-5);  // roundings of some 2^-24 * D
    }
  // 160 squares of normal numbers: their sum is off by sqrt(2 * 160) on average; four of those.
  CHECK(std::abs(squares - M * D) < 4 * std::sqrt(2.0 * M * D));
}

TEST_CASE("a parameter that no operation reached has a gradient of 0, whatever the step before left there") {
  ParamStore store;
  const Parameter& reached = store.add("reached", {3}, false, Init::constant(1));
  const Parameter& alone = store.add("alone", {3}, false, Init::constant(1));
  store.allocate(true);
  std::fill_n(store.gradients(), store.slab_size(), 7.0F);
  store.begin_step();
  const_cast<Slot&>(reached.slot).written = true;  // as an operation does
  store.complete_gradients();
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(reached.slot.grad.f32()[i] == 7);
    CHECK(alone.slot.grad.f32()[i] == 0);
  }
  CHECK(alone.slot.written);
  store.complete_gradients();  // a second time changes nothing
  CHECK(reached.slot.grad.f32()[0] == 7);
}

TEST_CASE("a name may appear once") {
  ParamStore store;
  store.add("x", {1}, true, Init::constant(0));
  CHECK_THROWS_AS(store.add("x", {1}, true, Init::constant(0)), Bug);
}
