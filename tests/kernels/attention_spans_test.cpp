// Which keys a query sees: masks, windows, global keys, documents, and what hidden keys hold.
#include <string>

#include "kernels/attention_inputs.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

/// Reproducible draws.
struct Draws {
  RandomStream stream;
  std::uint64_t index = 0;

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(stream.at(index++, 0)[0] % static_cast<std::uint64_t>(n));
  }
};

/// For each of B sequences of T tokens where its document begins: documents of random lengths.
std::vector<std::int32_t> random_starts(Draws& draw, std::int64_t B, std::int64_t T) {
  std::vector<std::int32_t> starts;
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t mean = 1 + draw.below(T);
    std::int32_t start = 0;
    for (std::int64_t t = 0; t < T; ++t) {
      if (draw.below(mean) == 0) start = static_cast<std::int32_t>(t);
      starts.push_back(start);
    }
  }
  return starts;
}

}  // namespace

TEST_CASE("attention's mask describes a span") {
  const std::int32_t lengths[] = {0, 3};
  const AttentionMask causal{true, 2, nullptr}, padded{false, 0, lengths}, both{true, 1, lengths};
  CHECK(causal.span(0, 0, 10).end == 3);
  CHECK(causal.span(0, 9, 10).end == 10);
  CHECK(padded.span(0, 5, 10).end == 0);
  CHECK(padded.span(1, 5, 10).end == 3);
  CHECK(both.span(1, 0, 10).end == 2);
  CHECK(both.span(1, 2, 10).end == 3);
  const AttentionMask window{true, 2, nullptr, 4}, padded_window{true, 2, lengths, 4};
  CHECK((window.span(0, 1, 10).begin == 0 && window.span(0, 1, 10).end == 4));
  CHECK((window.span(0, 2, 10).begin == 1 && window.span(0, 2, 10).end == 5));
  CHECK((window.span(0, 9, 10).begin == 8 && window.span(0, 9, 10).end == 10));  // a part of it is not there
  CHECK((padded_window.span(1, 3, 10).begin == 2 && padded_window.span(1, 3, 10).end == 3));
  CHECK((padded_window.span(1, 9, 10).begin == 3 && padded_window.span(1, 9, 10).end == 3));  // empty
  const AttentionMask itself{true, 0, nullptr, 1};
  CHECK((itself.span(0, 7, 10).begin == 7 && itself.span(0, 7, 10).end == 8));
  const AttentionMask both_sides{false, 0, nullptr, 3};
  CHECK((both_sides.span(0, 4, 10).begin == 2 && both_sides.span(0, 4, 10).end == 7));
  CHECK((both_sides.span(0, 9, 10).begin == 7 && both_sides.span(0, 9, 10).end == 10));
}

TEST_CASE("global keys are seen from beyond the window, and without causal see all themselves") {
  const AttentionMask causal{true, 0, nullptr, 2, 3}, sides{false, 0, nullptr, 2, 3};
  const auto seen = [](const AttentionMask& mask, std::int64_t t) {
    std::string keys;
    for (std::int64_t s = 0; s < 8; ++s) keys += mask.sees(0, t, s, 8) ? 'x' : '.';
    return keys;
  };
  CHECK(seen(causal, 0) == "x.......");
  CHECK(seen(causal, 2) == "xxx.....");
  CHECK(seen(causal, 4) == "xxxxx...");
  CHECK(seen(causal, 7) == "xxx...xx");
  CHECK(seen(sides, 2) == "xxxxxxxx");
  CHECK(seen(sides, 3) == "xxxxx...");
  CHECK(seen(sides, 6) == "xxx..xxx");
}

TEST_CASE("documents packed in a row see no key of one another") {
  const std::int32_t starts[] = {0, 0, 2, 2, 2, 5};
  AttentionMask mask;
  mask.starts = starts;
  mask.queries = 6;
  CHECK((mask.span(0, 1, 6).begin == 0 && mask.span(0, 1, 6).end == 2));
  CHECK((mask.span(0, 4, 6).begin == 2 && mask.span(0, 4, 6).end == 5));
  CHECK((mask.span(0, 5, 6).begin == 5 && mask.span(0, 5, 6).end == 6));
}

TEST_CASE("a sliding window of keys") {
  for (const std::int64_t T : {1, 3, 20, 65, 200})
    for (const std::int64_t window : {1, 2, 7, 8, 63, 64, 100, 1000}) {
      check_against_reference(AttentionInputs({1, T, T, 2, 20}, {true, 0, nullptr, window}));
      check_against_reference(AttentionInputs({2, T, T + 71, 2, 16, 1}, {true, 71, nullptr, window}));
      const std::int32_t lengths[] = {0, 1, 69, 90};
      check_against_reference(AttentionInputs({4, T, 90, 1, 12}, {true, 15, lengths, window}));
    }
  check_against_reference(
      AttentionInputs({1, 130, 130, 1, 256}, {true, 0, nullptr, 40}));  // tiles of fewer keys
  AttentionInputs dropped({2, 150, 150, 2, 20}, {true, 0, nullptr, 37});
  dropped.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, 5);
  check_against_reference(dropped);
}

TEST_CASE("random shapes, spans and kinds equal the reference") {
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    CAPTURE(seed);
    Draws draw{RandomStream(seed, site_hash("spans"), 0)};
    const std::int64_t longest[] = {6, 150, 330};  // less than a tile, a pass of tiles, two passes
    AttentionShape n{1 + draw.below(2), 1 + draw.below(longest[draw.below(3)]), 0, 0, 1 + draw.below(40)};
    n.Hkv = 1 + draw.below(2);
    n.H = n.Hkv * (1 + draw.below(3));
    AttentionMask mask;
    mask.causal = draw.below(3) != 0;
    const bool packed = draw.below(4) == 0;
    if (!packed) mask.offset = draw.below(2) * draw.below(120);
    n.S = draw.below(3) == 0 && !packed ? 1 + draw.below(180) : mask.offset + n.T;
    if (draw.below(3) != 0) mask.window = 1 + draw.below(draw.below(2) == 0 ? 8 : 120);
    if (mask.window > 0 && !packed && draw.below(3) != 0)
      mask.globals = draw.below(draw.below(2) == 0 ? 7 : 100);
    if (mask.globals > 0 && draw.below(2) == 0) mask.gap = draw.below(60);
    std::vector<std::int32_t> lengths, starts;
    for (std::int64_t b = 0; b < n.B; ++b) lengths.push_back(static_cast<std::int32_t>(draw.below(n.S + 1)));
    if (draw.below(3) == 0) mask.lengths = lengths.data();
    if (packed) starts = random_starts(draw, n.B, n.T), mask.starts = starts.data(), mask.queries = n.T;
    AttentionInputs in(n, mask, 1 + 10 * seed);
    const std::vector<float> slopes = alibi_slopes(n.H);
    if (draw.below(4) == 0) in.options.slopes = slopes.data();
    if (draw.below(4) == 0) in.options.dropout = Dropout(RandomStream(seed, 12, 13), 0.3, 5);
    check_against_reference(in);
  }
}

TEST_CASE("what no query of a row sees reaches nothing, whatever the spans") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Draws draw{RandomStream(seed, site_hash("hidden"), 0)};
    const AttentionShape n{2, 1 + draw.below(draw.below(2) == 0 ? 5 : 80), 200, 2, 1 + draw.below(30), 1};
    std::vector<std::int32_t> lengths = {static_cast<std::int32_t>(draw.below(200)), 200};
    AttentionMask mask;
    mask.causal = draw.below(2) == 0;
    mask.offset = draw.below(200 - n.T);
    mask.lengths = lengths.data();
    mask.window = 1 + draw.below(30);
    mask.globals = draw.below(20);
    AttentionInputs clean(n, mask), dirty(n, mask);
    for (std::int64_t b = 0; b < n.B; ++b)
      for (std::int64_t s = 0; s < n.S; ++s) {
        bool seen = false;
        for (std::int64_t t = 0; t < n.T; ++t) seen |= mask.sees(b, t, s, n.S);
        for (std::int64_t d = 0; d < n.D && !seen; ++d) {
          dirty.k[n.k(b, s, 0, d)] = d % 2 == 0 ? nan : -inf;
          dirty.v[n.k(b, s, 0, d)] = d % 2 == 0 ? inf : nan;
        }
      }
    const AttentionResults a = run(clean), b = run(dirty);
    CHECK(same_bits(a.out, b.out));
    CHECK(same_bits(a.lse, b.lse));
    CHECK(same_bits(a.dq, b.dq));
    CHECK(same_bits(a.dk, b.dk));
    CHECK(same_bits(a.dv, b.dv));
  }
}

TEST_CASE("a window of one key sees only itself") {
  const AttentionInputs in({2, 70, 70, 2, 20}, {true, 0, nullptr, 1});
  const AttentionResults got = run(in);
  CHECK(relative_error(got.out, widen(in.v)) < 1e-6);
  CHECK(relative_error(got.dv, widen(in.dout)) < 1e-6);
}

TEST_CASE("what lies in hidden keys and values reaches nothing") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::int32_t lengths[] = {0, 1, 66, 75};
  for (const std::int64_t T : {1, 20})
    for (const bool causal : {false, true}) {
      const AttentionShape n{4, T, 80, 2, 17};
      const AttentionMask mask{causal, 58, lengths};
      AttentionInputs clean(n, mask), dirty(n, mask);
      for (std::int64_t b = 0; b < n.B; ++b)
        for (std::int64_t s = mask.span(b, T - 1, n.S).end; s < n.S; ++s)
          for (std::int64_t h = 0; h < n.H; ++h)
            for (std::int64_t d = 0; d < n.D; ++d) {
              dirty.k[n.k(b, s, h, d)] = d % 2 == 0 ? nan : -inf;
              dirty.v[n.k(b, s, h, d)] = d % 2 == 0 ? inf : nan;
            }
      const AttentionResults a = run(clean), b = run(dirty);
      CHECK(same_bits(a.out, b.out));
      CHECK(same_bits(a.lse, b.lse));
      CHECK(same_bits(a.dq, b.dq));
      CHECK(same_bits(a.dk, b.dk));
      CHECK(same_bits(a.dv, b.dv));
      for (std::size_t i = 0; i < n.q(1, 0, 0, 0); ++i) CHECK((a.out[i] == 0 && a.dq[i] == 0));
    }
}

TEST_CASE("what a window has left behind reaches nothing") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t T : {1, 3, 40})
    for (const std::int64_t window : {1, 9, 30}) {
      const AttentionShape n{1, T, 58 + T, 2, 17, 1};
      const AttentionMask mask{true, 58, nullptr, window};
      AttentionInputs clean(n, mask), dirty(n, mask);
      for (std::int64_t s = 0; s < mask.span(0, 0, n.S).begin; ++s)
        for (std::int64_t d = 0; d < n.D; ++d) {
          dirty.k[n.k(0, s, 0, d)] = d % 2 == 0 ? nan : -inf;
          dirty.v[n.k(0, s, 0, d)] = d % 2 == 0 ? inf : nan;
        }
      const AttentionResults a = run(clean), b = run(dirty);
      CAPTURE(T, window);
      CHECK(same_bits(a.out, b.out));
      CHECK(same_bits(a.dq, b.dq));
      CHECK(same_bits(a.dk, b.dk));
      CHECK(same_bits(a.dv, b.dv));
    }
}
