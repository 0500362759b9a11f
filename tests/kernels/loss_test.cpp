#include "reference/loss.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "quern/kernels/loss.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

RowLoss run(std::vector<float>& logits, const std::vector<std::int32_t>& targets, float smoothing,
            float scale) {
  const std::int64_t rows = std::int64_t(targets.size());
  std::vector<float> scratch = poison(std::int64_t(cross_entropy_rows_scratch(rows)));
  return cross_entropy_rows({logits.data(), {rows, std::int64_t(logits.size()) / rows}}, targets.data(),
                            smoothing, scale, scratch);
}

}  // namespace

TEST_CASE("cross-entropy against the reference and dual numbers", "[loss]") {
  // Losses and probabilities carry exp's 2 ulp and the rounding of logit - largest: 1e-6 covers both.
  for (const std::int64_t cols : {1, 17, 64, 513, 2100}) {
    const std::vector<std::int32_t> targets = {0, ignored_target, std::int32_t(cols - 1)};
    const auto logits = normal(3 * cols, 1, 3);
    for (const float smoothing : {0.0F, 0.1F}) {
      CAPTURE(cols, smoothing);
      const auto wanted = cross_entropy(widen(logits), targets, smoothing);
      auto got = logits;
      const RowLoss loss = run(got, targets, smoothing, 0.5F);
      CHECK(loss.targets == 2);
      CHECK(loss.nll == Approx(wanted.nll).epsilon(1e-6).margin(1e-6));
      CHECK(loss.smoothed == Approx(wanted.smoothed).epsilon(1e-6).margin(1e-6));
      if (cols > 600) continue;
      const auto slopes = gradient(logits, [&](const std::vector<Dual>& x) {
        return Dual(0.5) * cross_entropy(x, targets, smoothing).smoothed;
      });
      CHECK(relative_error(got, slopes, 1) < 1e-6);
    }
  }
}

TEST_CASE("cross-entropy of the golden file", "[loss]") {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/fixtures/attention_family.json");
  const auto golden = nlohmann::json::parse(file)["cross_entropy"];
  std::vector<float> logits;
  std::vector<double> gradients;
  for (const auto& row : golden["logits"])
    for (const auto& x : row) logits.push_back(x.get<float>());
  for (const auto& row : golden["grad_logits"])
    for (const auto& x : row) gradients.push_back(x.get<double>());
  std::vector<std::int32_t> targets;
  std::int64_t counted = 0;
  for (const auto& t : golden["targets"]) {
    const bool ignored = t == golden["ignored"];
    targets.push_back(ignored ? ignored_target : t.get<std::int32_t>());
    counted += ignored ? 0 : 1;
  }
  const RowLoss loss =
      run(logits, targets, golden["label_smoothing"].get<float>(), 1.0F / static_cast<float>(counted));
  CHECK(loss.targets == counted);
  CHECK(loss.smoothed / double(counted) == Approx(golden["loss"].get<double>()).epsilon(1e-6));
  CHECK(loss.nll / double(counted) == Approx(golden["nll"].get<double>()).epsilon(1e-6));
  CHECK(relative_error(logits, gradients) < 1e-6);
}

TEST_CASE("logits of ten thousand and of minus infinity", "[loss]") {
  std::vector<float> x = {1e4F, -1e4F, 0, -inf, 5, 5};
  const RowLoss loss = run(x, {1, 1}, 0, 1);
  CHECK(loss.nll == Approx(2e4 + std::log(2.0)));
  CHECK(x == std::vector<float>{1, -1, 0, 0, -0.5F, 0.5F});

  x = {-inf, 2, 2};
  CHECK(run(x, {0}, 0, 1).nll == inf);
  CHECK(x == std::vector<float>{-1, 0.5F, 0.5F});
  x = {-inf, 2, 2};
  const RowLoss smoothed = run(x, {1}, 0.1F, 1);
  CHECK(smoothed.nll == Approx(std::log(2.0)));
  CHECK(smoothed.smoothed == inf);
  CHECK(x[0] == Approx(-0.1 / 3));
}

TEST_CASE("what is not a number comes out as NaN, unless it is ignored", "[loss]") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf}) {
    for (const std::size_t place : {0, 5, 18}) {
      std::vector<float> x(19, 1.0F);
      x[place] = bad;
      CHECK(std::isnan(run(x, {3}, 0, 0).nll));
      const RowLoss ignored = run(x, {ignored_target}, 0.1F, 1);
      CHECK((ignored.nll == 0 && ignored.smoothed == 0 && ignored.targets == 0));
      CHECK(x == std::vector<float>(19, 0.0F));
    }
  }
  std::vector<float> nothing(3, -inf);
  CHECK(std::isnan(run(nothing, {0}, 0, 0).nll));
}

TEST_CASE("without a gradient the logits stay", "[loss]") {
  const auto logits = normal(4 * 37, 2);
  auto x = logits;
  const RowLoss only = run(x, {1, -1, 3, 4}, 0.1F, 0);
  CHECK(x == logits);
  const RowLoss both = run(x, {1, -1, 3, 4}, 0.1F, 1);
  CHECK((only.nll == both.nll && only.smoothed == both.smoothed));
}

TEST_CASE("a target outside of the vocabulary is a bug", "[loss]") {
  std::vector<float> x(5, 1.0F);
  CHECK_THROWS_AS(run(x, {5}, 0, 0), Bug);
  CHECK_THROWS_AS(run(x, {-100}, 0, 0), Bug);
}

TEST_CASE("cross-entropy has the same bits on any number of threads", "[loss]") {
  const auto logits = normal(1200 * 65, 3);
  std::vector<std::int32_t> targets(1200);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = std::int32_t(i % 66) - 1;
  CHECK(same_on_any_threads([&] {
    auto x = logits;
    const RowLoss loss = run(x, targets, 0.1F, 0.01F);
    std::vector<double> all(x.begin(), x.end());
    all.push_back(loss.nll);
    all.push_back(loss.smoothed);
    return all;
  }));
}
