// Attention with additive scores; what it shares with the product's is held by attention_test.cpp.
#include <cstring>

#include "quern/kernels/attention.hpp"
#include "reference/attention.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

// Rounding: a score is a sum of D terms of size D^-1/2 with a tanh of 2 ulp: some 1e-7, the relative error of
// its weight beside 3e-7 of the exponential. Outputs and gradients are sums of such terms with random signs.
constexpr double tolerance = 5e-6;

struct Inputs {
  AttentionShape n;
  std::vector<float> q, k, v, w, dout;
  AttentionOptions options;

  explicit Inputs(AttentionShape n_, AttentionMask mask = {}, std::uint64_t seed = 1) : n(n_) {
    q = normal(n.queries(), seed);
    k = normal(n.keys(), seed + 1);
    v = normal(n.keys(), seed + 2);
    dout = normal(n.queries(), seed + 3);
    w = normal(n.H * n.D, seed + 4, 2 / std::sqrt(double(n.D)));
    options.mask = mask;
  }
};

struct Results {
  std::vector<float> out, lse, dq, dk, dv, dw;
};

Results run(Inputs in, float beta = 0, const std::vector<float>& before = {}) {
  const AttentionShape& n = in.n;
  const auto query = [&](std::vector<float>& x) { return Tensor(x.data(), {n.B, n.T, n.H, n.D}); };
  const auto key = [&](std::vector<float>& x) { return Tensor(x.data(), {n.B, n.S, n.Hkv, n.D}); };
  in.options.additive = in.w.data();
  Results r{poison(n.queries()), poison(n.B * n.H * n.T), poison(n.queries()),
            poison(n.keys()),    poison(n.keys()),        poison(n.H * n.D)};
  if (!before.empty()) r.dw = before;
  attention_forward(query(r.out), r.lse.data(), query(in.q), key(in.k), key(in.v), in.options);
  std::vector<float> scratch(attention_backward_scratch(n.B, n.T, n.S, n.Hkv, n.D, n.H),
                             std::numeric_limits<float>::quiet_NaN());
  attention_backward({query(r.dq), 0}, {key(r.dk), 0}, {key(r.dv), 0}, query(in.dout), query(r.out),
                     r.lse.data(), query(in.q), key(in.k), key(in.v), in.options, scratch,
                     {Tensor(r.dw.data(), {n.H, n.D}), beta});
  return r;
}

void check_against_reference(const Inputs& in) {
  INFO("B " << in.n.B << " T " << in.n.T << " S " << in.n.S << " H " << in.n.H << " over " << in.n.Hkv
            << " D " << in.n.D << " causal " << in.options.mask.causal << " offset "
            << in.options.mask.offset);
  const auto q = widen(in.q), k = widen(in.k), v = widen(in.v), w = widen(in.w), dout = widen(in.dout);
  const auto out = attention(in.n, q, k, v, in.options, {}, w);
  const auto g = attention_gradients(in.n, dout, q, k, v, in.options, w);
  const Results got = run(in);
  CHECK(relative_error(got.out, out) < tolerance);
  CHECK(relative_error(got.dq, g.dq, 1) < tolerance);
  CHECK(relative_error(got.dk, g.dk, 1) < tolerance);
  CHECK(relative_error(got.dv, g.dv, 1) < tolerance);
  CHECK(relative_error(got.dw, g.dw, 1) < tolerance);
}

}  // namespace

TEST_CASE("additive scores: forward and backward equal the double reference") {
  for (const std::int64_t T : {1, 2, 33, 65})
    for (const std::int64_t D : {1, 16, 17, 64}) check_against_reference(Inputs({1, T, T, 2, D}));
  check_against_reference(Inputs({1, 20, 20, 1, 256}));
  check_against_reference(Inputs({1, 130, 130, 2, 20, 1}));
  const std::int32_t lengths[] = {0, 1, 69, 90};
  for (const std::int64_t T : {1, 3, 20}) {
    check_against_reference(Inputs({2, T, 37, 4, 20, 2}, {false, 0, nullptr}));  // cross-attention
    check_against_reference(Inputs({2, T, T + 71, 6, 20, 2}, {true, 71, nullptr}));
    check_against_reference(Inputs({4, T, 90, 2, 12}, {true, 15, lengths}));
    check_against_reference(Inputs({4, T, 90, 1, 12}, {true, 15, lengths, 30}));
  }
}

TEST_CASE("additive scores with random shapes, spans and dropout") {
  const RandomStream stream(17, site_hash("additive"), 0);
  for (std::uint64_t round = 0; round < 30; ++round) {
    const auto r = stream.at(round, 0), s = stream.at(round, 1);
    const auto up_to = [](std::uint32_t bits, std::int64_t n) {
      return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n), bits, 0)) + 1;
    };
    const std::int64_t Hkv = up_to(r[0], 2), H = Hkv * up_to(r[1], 3), T = up_to(r[2], 80);
    const AttentionMask mask{s[0] % 2 == 0, up_to(s[1], 40) - 1, nullptr,
                             s[0] % 4 == 0 ? up_to(s[2], 50) : 0};
    const std::int64_t S = mask.causal ? T + mask.offset : up_to(s[3], 100);
    Inputs in({up_to(r[3], 3), T, S, H, up_to(r[3] << 8, 40), Hkv}, mask, round);
    const std::vector<float> slopes = alibi_slopes(H);
    if (round % 3 == 0) in.options.slopes = slopes.data();
    if (round % 2 == 0) in.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, round);
    check_against_reference(in);
  }
}

TEST_CASE("the reference's gradients of additive scores equal dual numbers") {
  const AttentionShape n{2, 4, 5, 4, 3, 2};
  const std::int32_t lengths[] = {5, 2};
  Inputs in(n, {true, 1, lengths});
  in.options.dropout = Dropout(RandomStream(3, 4, 5), 0.25, 7);
  const std::vector<float> inputs[4] = {in.q, in.k, in.v, in.w};
  const auto g =
      attention_gradients(n, widen(in.dout), widen(in.q), widen(in.k), widen(in.v), in.options, widen(in.w));
  const std::vector<double>* wanted[4] = {&g.dq, &g.dk, &g.dv, &g.dw};
  for (int which = 0; which < 4; ++which) {
    const auto by_dual = gradient(inputs[which], [&](const std::vector<Dual>& x) {
      std::vector<Dual> p[4];
      for (int i = 0; i < 4; ++i) p[i] = i == which ? x : constants(inputs[i]);
      return weighted(in.dout, attention(n, p[0], p[1], p[2], in.options, {}, p[3]));
    });
    CHECK(relative_error(*wanted[which], by_dual, 1) < 1e-12);  // double rounding in sums of some ten terms
  }
}

TEST_CASE("the gradient of additive scores' vector is added to what is there") {
  const Inputs in({2, 30, 30, 2, 20});
  const std::vector<float> before = normal(in.n.H * in.n.D, 21);
  const Results zero = run(in), one = run(in, 1, before);
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(std::abs(one.dw[i] - (zero.dw[i] + before[i])) < 1e-6 * (1 + std::abs(zero.dw[i])));
}

TEST_CASE("what lies in hidden keys reaches no additive score") {
  const std::int32_t lengths[] = {0, 1, 40};
  for (const std::int64_t T : {1, 20}) {
    const AttentionShape n{3, T, 50, 2, 17};
    Inputs clean(n, {false, 0, lengths}), dirty = clean;
    for (std::int64_t b = 0; b < n.B; ++b)
      for (std::int64_t s = lengths[b]; s < n.S; ++s)
        for (std::int64_t h = 0; h < n.H; ++h)
          for (std::int64_t d = 0; d < n.D; ++d)
            dirty.k[n.k(b, s, h, d)] = dirty.v[n.k(b, s, h, d)] = std::numeric_limits<float>::quiet_NaN();
    const Results a = run(clean), b = run(dirty);
    CHECK(a.out == b.out);
    CHECK(a.dq == b.dq);
    CHECK(a.dk == b.dk);
    CHECK(a.dv == b.dv);
    CHECK(a.dw == b.dw);
  }
}

TEST_CASE("a NaN or an infinity in a query or a key that is seen is not swallowed by its additive score") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t T : {1, 20})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf}) {
      Inputs in({1, T, 20, 1, 8}, {false, 0, nullptr}), of_query = in;
      in.k[3 * 8 + 5] = bad;
      for (const float x : run(in).out) CHECK(std::isnan(x));
      of_query.q[static_cast<std::size_t>(T - 1) * 8 + 5] = bad;
      const Results got = run(of_query);
      for (std::size_t i = 0; i < got.out.size(); ++i)
        CHECK(std::isnan(got.out[i]) == (i >= static_cast<std::size_t>(T - 1) * 8));
    }
}

TEST_CASE("additive scores give the same bits on any number of threads") {
  Inputs in({3, 70, 70, 4, 20, 2});
  in.options.dropout = Dropout(RandomStream(5, 6, 7), 0.2, 0);
  CHECK(same_on_any_threads([&] { return run(in).out; }));
  CHECK(same_on_any_threads([&] { return run(in).dw; }));
  CHECK(same_on_any_threads([&] { return run(in).dk; }));
}
