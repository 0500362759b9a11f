#include "quern/infer/sampler.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <set>

#include "catch.hpp"
#include "quern/base/check.hpp"

namespace {
std::size_t allocations = 0;
}

// Not inlined: GCC 12 would see malloc on one side of a pair and operator new on the other, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace quern {
namespace {

using Logits = std::vector<float>;
using Ids = std::vector<std::int32_t>;

std::int32_t greedy(const Logits& logits, const Ids& history = {}, double penalty = 1) {
  SamplerOptions options;
  options.temperature = 0;
  options.repetition_penalty = penalty;
  return Sampler(options).next(logits, history, 0);
}

/// The ids that 2,000 draws give: one of probability 0.03 is missed with probability 0.97^2000 = 4e-27.
std::set<std::int32_t> support(const SamplerOptions& options, const Logits& logits) {
  Sampler sampler(options);
  std::set<std::int32_t> ids;
  for (std::int64_t position = 0; position < 2000; ++position) ids.insert(sampler.next(logits, {}, position));
  return ids;
}

Ids draws(const SamplerOptions& options, const Logits& logits, std::int64_t sample_index = 0) {
  Sampler sampler(options, sample_index);
  Ids ids;
  for (std::int64_t position = 0; position < 200; ++position)
    ids.push_back(sampler.next(logits, {}, position));
  return ids;
}

/// Probabilities 0.1, 0.4, 0.2, 0.3 at temperature 1.
const Logits four = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
using Set = std::set<std::int32_t>;

void refused(const SamplerOptions& options, const std::string& flag) {
  try {
    const Sampler sampler(options);
    FAIL("accepted a wrong " << flag);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::config);
    CHECK(std::string(error.what()).starts_with(flag + ":"));
    CHECK_FALSE(error.hint.empty());
  }
}

TEST_CASE("temperature 0 takes the most likely token, of equals the lowest id") {
  CHECK(greedy({1, 3, 2}) == 1);
  CHECK(greedy({-5, -1, -1, -1}) == 1);
  CHECK(greedy({7}) == 0);
  CHECK(greedy({0, 0}) == 0);
}

TEST_CASE("a tiny temperature and huge logits overflow nowhere") {
  SamplerOptions options;
  for (const double temperature : {1e-4, 1e-300}) {
    options.temperature = temperature;
    CHECK(support(options, {1, 2, 1.9F}) == Set{1});
    CHECK(support(options, {-3e38F, 3e38F, 0}) == Set{1});
    CHECK(support(options, {-3e38F, -3e38F}) == Set{0, 1});
  }
  options.temperature = 1e300;
  CHECK(support(options, {-3e38F, 3e38F, 0}) == Set{0, 1, 2});
}

TEST_CASE("top_k keeps the k most likely") {
  SamplerOptions options;
  const std::vector<std::pair<std::int64_t, Set>> table = {
      {0, {0, 1, 2, 3}}, {1, {1}}, {2, {1, 3}}, {3, {1, 2, 3}}, {4, {0, 1, 2, 3}}, {1000000, {0, 1, 2, 3}}};
  for (const auto& [k, ids] : table) {
    options.top_k = k;
    CAPTURE(k);
    CHECK(support(options, four) == ids);
  }
  options.top_k = 2;
  CHECK(support(options, {5, 5, 5}) == Set{0, 1});  // ties: the lower ids
}

TEST_CASE("top_k above the vocabulary draws as no top_k does") {
  SamplerOptions options, large;
  large.top_k = 5;
  CHECK(draws(options, four) == draws(large, four));
}

TEST_CASE("top_p keeps the fewest tokens that hold the probability") {
  SamplerOptions options;
  const std::vector<std::pair<double, Set>> table = {
      {0, {1}},          {1e-9, {1}},       {0.39, {1}},          {0.41, {1, 3}},   {0.69, {1, 3}},
      {0.71, {1, 2, 3}}, {0.89, {1, 2, 3}}, {0.91, {0, 1, 2, 3}}, {1, {0, 1, 2, 3}}};
  for (const auto& [p, ids] : table) {
    options.top_p = p;
    CAPTURE(p);
    CHECK(support(options, four) == ids);
  }
  options.top_p = 1e-9;
  CHECK(support(options, {5, 5, 5}) == Set{0});
}

TEST_CASE("min_p keeps what is likely enough beside the most likely") {
  SamplerOptions options;
  const std::vector<std::pair<double, Set>> table = {
      {0, {0, 1, 2, 3}}, {0.24, {0, 1, 2, 3}}, {0.26, {1, 2, 3}}, {0.49, {1, 2, 3}},
      {0.51, {1, 3}},    {0.76, {1}},          {1, {1}}};
  for (const auto& [p, ids] : table) {
    options.min_p = p;
    CAPTURE(p);
    CHECK(support(options, four) == ids);
  }
  CHECK(support(options, {5, 1, 5}) == Set{0, 2});  // 1: those as likely as the first
}

TEST_CASE("the filters act in Hugging Face's order") {
  SamplerOptions options;
  options.temperature = 0.5;  // 0.033, 0.533, 0.133, 0.3
  options.top_p = 0.5;
  CHECK(support(options, four) == Set{1});  // before the temperature 0.4 would not have been enough
  options = {};
  options.top_k = 2;  // 0.571, 0.429
  options.top_p = 0.5;
  CHECK(support(options, four) == Set{1});  // of the whole, 0.4 would not have been enough
  options = {};
  options.temperature = 2;  // 0.163, 0.325, 0.230, 0.282
  options.min_p = 0.6;
  CHECK(support(options, four) == Set{1, 2, 3});  // before the temperature 0.2 / 0.4 is below 0.6
}

TEST_CASE("the repetition penalty divides positive and multiplies negative logits, once a token") {
  CHECK(greedy({2, 1.5F, -1}, {0}, 1) == 0);
  CHECK(greedy({2, 1.5F, -1}, {0}, 2) == 1);
  CHECK(greedy({-1, -1.5F}, {0}, 2) == 1);
  CHECK(greedy({2, 0.9F}, {0, 0, 0}, 2) == 0);  // 1 against 0.9; three times would be 0.25
  CHECK(greedy({1, 1.5F}, {0}, 0.5) == 0);      // below 1 it rewards
  CHECK(greedy({3e38F, -3e38F}, {0, 1}, 1000) == 0);
  SamplerOptions options;
  options.repetition_penalty = 1000;
  const Logits huge = {-3e38F, -3e38F};
  const Ids history = {0, 1};
  CHECK_NOTHROW(Sampler(options).next(huge, history, 0));
}

TEST_CASE("tokens are drawn as often as their probability says") {
  const Logits logits = {0.3F, -1, 2, 1.5F, 0};
  constexpr int n = 20000;
  for (const double temperature : {0.5, 1.0, 3.0}) {
    for (const bool sorted : {false, true}) {  // the two ways through the filters
      SamplerOptions options;
      options.temperature = temperature;
      options.seed = 7;
      if (sorted) options.top_p = 1 - 1e-12;
      Sampler sampler(options);
      std::vector<double> count(5), p(5);
      double total = 0;
      for (std::size_t i = 0; i < 5; ++i) total += p[i] = std::exp(logits[i] / temperature);
      for (std::int64_t t = 0; t < n; ++t) ++count[static_cast<std::size_t>(sampler.next(logits, {}, t))];
      double chi_square = 0;
      for (std::size_t i = 0; i < 5; ++i) {
        const double wanted = n * p[i] / total;
        chi_square += (count[i] - wanted) * (count[i] - wanted) / wanted;
      }
      CHECK(chi_square < 23.5);  // four degrees of freedom: passed by chance once in 10,000 seeds
    }
  }
}

TEST_CASE("a draw is a pure function of seed, sample and position") {
  SamplerOptions options;
  options.seed = 3;
  const Logits logits(50, 0.0F);
  const Ids first = draws(options, logits);
  Sampler backwards(options);
  for (std::int64_t t = 199; t >= 0; --t)
    CHECK(backwards.next(logits, {}, t) == first[static_cast<std::size_t>(t)]);
  CHECK(draws(options, logits) == first);
  CHECK(draws(options, logits, 1) != first);
  options.seed = 4;
  CHECK(draws(options, logits) != first);
  Sampler far(options);  // the position has 64 bits
  bool differs = false;
  for (std::int64_t t = 0; t < 20; ++t)
    differs |= far.next(logits, {}, t) != far.next(logits, {}, t + (std::int64_t{1} << 32));
  CHECK(differs);
}

TEST_CASE("a logit that is not finite is a divergence") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    try {
      greedy({0, bad, 1});
      FAIL("accepted " << bad);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::diverged);
      CHECK(std::string(error.what()).find("token 1") != std::string::npos);
    }
  }
}

TEST_CASE("options out of range are refused by their flag") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto with = [](auto SamplerOptions::*field, auto value) {
    SamplerOptions options;
    options.*field = value;
    return options;
  };
  for (const double x : {-1e-9, nan, inf}) refused(with(&SamplerOptions::temperature, x), "--temperature");
  for (const double x : {-0.1, 1.1, nan}) refused(with(&SamplerOptions::top_p, x), "--top-p");
  for (const double x : {-0.1, 1.1, nan}) refused(with(&SamplerOptions::min_p, x), "--min-p");
  for (const double x : {-1.0, 0.0, nan, inf})
    refused(with(&SamplerOptions::repetition_penalty, x), "--repetition-penalty");
  refused(with(&SamplerOptions::top_k, std::int64_t{-1}), "--top-k");
}

TEST_CASE("after its first token a sampler allocates nothing") {
  SamplerOptions options;
  options.top_k = 300;
  options.top_p = 0.9;
  options.repetition_penalty = 1.1;
  Sampler sampler(options);
  const Logits logits(1000, 0.5F);
  const Ids history = {1, 2, 3};
  sampler.next(logits, history, 0);
  const std::size_t before = allocations;
  for (std::int64_t t = 1; t < 10; ++t) sampler.next(logits, history, t);
  CHECK(allocations == before);
}

}  // namespace
}  // namespace quern
