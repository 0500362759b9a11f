#include "reference/muon.hpp"

#include "quern/base/bf16.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

/// A matrix with its momentum.
struct State {
  std::int64_t M, N;
  std::vector<float> w = normal(M * N, 1), m = std::vector<float>(w.size());
  std::vector<float> scratch = poison(std::int64_t(muon_scratch(M, N)));

  Tensor tensor(std::vector<float>& x) const { return Tensor(x.data(), {M, N}); }
  Squares step(std::vector<float> g, const Muon& muon, Tensor shadow = {}) {
    return muon_update(tensor(w), tensor(g), tensor(m), shadow, muon, scratch);
  }
};

}  // namespace

TEST_CASE("muon against the reference", "[muon]") {
  // A Newton-Schulz step multiplies an error of a small singular value by at most 3.4445: 485 in five. Sums
  // of up to 96 products round by some 1e-7, of a matrix whose largest entries are about 1 / sqrt(min(M, N)).
  const Muon muon{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.1F, .gradient_scale = 0.25F};
  for (const auto& [M, N] : {std::pair{1, 1}, {1, 17}, {17, 1}, {16, 16}, {24, 65}, {96, 32}, {33, 31}}) {
    CAPTURE(M, N);
    State s{M, N};
    std::vector<double> w = widen(s.w), m(w.size());
    for (std::uint64_t step = 0; step < 4; ++step) {
      const auto g = normal(M * N, 100 + step);
      const auto before = s.w;
      const Squares squares = s.step(g, muon);
      reference::muon(w, widen(g), m, M, N, muon);
      Squares moved;
      for (std::size_t i = 0; i < before.size(); ++i)
        moved += {std::pow(double(s.w[i]) - double(before[i]), 2), std::pow(double(before[i]), 2)};
      // A new weight is rounded to 6e-8 of itself, which the change, of some 0.03 of it and more, holds too.
      CHECK(std::abs(squares.change - moved.change) <= 1e-5 * moved.change);
      CHECK(std::abs(squares.weights - moved.weights) <= 1e-12 * moved.weights);
    }
    CHECK(relative_error(s.m, m) < 1e-6);
    CHECK(relative_error(s.w, w) < 1e-4);
  }
}

TEST_CASE("muon's update is nearly orthogonal, whatever the gradient's size", "[muon]") {
  const std::int64_t M = 12, N = 40;
  for (const float size : {1e-6F, 1.0F, 1e6F}) {
    State s{M, N};
    std::fill(s.w.begin(), s.w.end(), 0.0F);
    auto g = normal(M * N, 7);
    for (float& x : g) x *= size;
    s.step(g, {.learning_rate = 1});
    for (std::int64_t i = 0; i < M; ++i) {  // the rows of -o: lengths in [0.68, 1.13], near right angles
      double length = 0;
      for (std::int64_t n = 0; n < N; ++n) length += std::pow(s.w[std::size_t(i * N + n)], 2);
      CHECK(std::sqrt(length) > 0.6);
      CHECK(std::sqrt(length) < 1.2);
    }
  }
}

TEST_CASE("muon with a zero gradient only decays", "[muon]") {
  State s{3, 5};
  const auto before = s.w;
  s.step(std::vector<float>(15), {.learning_rate = 0.5F, .weight_decay = 0.5F});
  for (std::size_t i = 0; i < 15; ++i) CHECK(s.w[i] == 0.75F * before[i]);
}

TEST_CASE("muon writes the shadow as it goes", "[muon]") {
  State s{8, 8};
  std::vector<bf16> shadow(64);
  s.step(normal(64, 3), {.learning_rate = 0.1F},
         Tensor(shadow.data(), Type::bf16, std::array<std::int64_t, 2>{8, 8}));
  for (std::size_t i = 0; i < 64; ++i) CHECK(to_float(shadow[i]) == to_float(to_bf16(s.w[i])));
}
