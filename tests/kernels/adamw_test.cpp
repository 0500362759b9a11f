#include "reference/adamw.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "quern/kernels/adamw.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

Squares squares_of(const std::vector<double>& before, const std::vector<double>& after) {
  Squares squares;
  for (std::size_t i = 0; i < before.size(); ++i)
    squares += {std::pow(after[i] - before[i], 2), std::pow(before[i], 2)};
  return squares;
}

}  // namespace

TEST_CASE("adamw against the reference", "[adamw]") {
  // A step adds a few roundings of w (6e-8 of itself) and of a step of about the learning rate; 20 of them
  // follow.
  for (const std::int64_t n : {1, 17, 64, 513}) {
    auto w = normal(n, 1), m = std::vector<float>(w.size()), v = m;
    std::vector<double> w2 = widen(w), m2(w.size()), v2(w.size());
    AdamW a{.learning_rate = 1e-2F,
            .beta1 = 0.9F,
            .beta2 = 0.99F,
            .eps = 1e-8F,
            .weight_decay = 0.1F,
            .gradient_scale = 0.25F};
    for (a.step = 1; a.step <= 20; ++a.step) {
      const auto g = normal(n, 100 + std::uint64_t(a.step));
      const auto before = widen(w);
      const Squares squares = adamw_update(w.data(), g.data(), m.data(), v.data(), n, a);
      for (std::size_t i = 0; i < w.size(); ++i) reference::adamw(w2[i], double(g[i]), m2[i], v2[i], a);
      const Squares moved = squares_of(before, widen(w));  // a lane adds 64 squares in floats: 64 * 6e-8
      CHECK(std::abs(squares.change - moved.change) <= 4e-6 * moved.change);
      CHECK(std::abs(squares.weights - moved.weights) <= 4e-6 * moved.weights);
    }
    CHECK(relative_error(m, m2) < 1e-6);
    CHECK(relative_error(v, v2) < 1e-6);
    CHECK(relative_error(w, w2) < 2e-6);
  }
}

TEST_CASE("adamw of the golden file", "[adamw]") {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/fixtures/attention_family.json");
  const auto golden = nlohmann::json::parse(file)["adamw"];
  const auto flat = [](const nlohmann::json& rows) {
    std::vector<float> out;
    for (const auto& row : rows)
      for (const auto& x : row) out.push_back(x.get<float>());
    return out;
  };
  std::vector<float> w = flat(golden["w"]), m(w.size()), v(w.size());
  AdamW a;
  a.learning_rate = golden["lr"].get<float>();
  a.beta1 = golden["betas"][0].get<float>();
  a.beta2 = golden["betas"][1].get<float>();
  a.eps = golden["eps"].get<float>();
  a.weight_decay = golden["weight_decay"].get<float>();
  for (std::size_t s = 0; s < golden["grads"].size(); ++s) {
    a.step = std::int64_t(s) + 1;
    const auto g = flat(golden["grads"][s]);
    adamw_update(w.data(), g.data(), m.data(), v.data(), std::int64_t(w.size()), a);
    CHECK(relative_error(w, flat(golden["after"][s])) < 1e-6);
  }
}

TEST_CASE("adamw with a zero gradient only decays", "[adamw]") {
  std::vector<float> w(20, 2.0F), zero(20), m(20), v(20);
  AdamW a{.learning_rate = 0.5F, .weight_decay = 0.5F};
  adamw_update(w.data(), zero.data(), m.data(), v.data(), 20, a);
  for (const float x : w) CHECK(x == 1.5F);
  a.weight_decay = 0;
  adamw_update(w.data(), zero.data(), m.data(), v.data(), 20, a);
  for (const float x : w) CHECK(x == 1.5F);
}

TEST_CASE("adamw has the same bits on any number of threads and however it is cut", "[adamw]") {
  const std::int64_t n = 70'001;
  const auto g = normal(n, 2);
  const auto run = [&](std::int64_t cut) {
    auto w = normal(n, 1), m = normal(n, 3), v = std::vector<float>(w.size(), 0.1F);
    const AdamW a{.learning_rate = 1e-3F, .weight_decay = 0.1F, .step = 5};
    adamw_update(w.data(), g.data(), m.data(), v.data(), cut, a);
    adamw_update(w.data() + cut, g.data() + cut, m.data() + cut, v.data() + cut, n - cut, a);
    return w;
  };
  CHECK(same_on_any_threads([&] { return run(0); }));
  CHECK(same_on_any_threads([&] {
    auto w = normal(n, 1), m = normal(n, 3), v = std::vector<float>(w.size(), 0.1F);
    const Squares s = adamw_update(w.data(), g.data(), m.data(), v.data(), n, {.learning_rate = 1e-3F});
    return std::vector<double>{s.change, s.weights};
  }));
  CHECK(run(0) == run(33'333));
}
