#include "quern/kernels/linear_attention.hpp"

#include <cstring>

#include "quern/kernels/attention.hpp"
#include "reference/check.hpp"
#include "reference/linear_attention.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

// Features are within some 3e-7 of themselves (the exponential, and a product of D terms in its exponent);
// outputs are quotients of sums of positive terms, gradients differences of such: 1e-5 of the tensor's
// largest number holds with a factor of about 3 to spare.
constexpr double tolerance = 1e-5;

struct Inputs {
  AttentionShape n;
  std::vector<float> q, k, v, dout, directions;
  std::vector<std::int32_t> lengths;
  LinearAttentionOptions options;

  /// M = 0: the elu map.
  Inputs(AttentionShape n_, std::int64_t M, bool causal, std::uint64_t seed = 1) : n(n_) {
    q = normal(n.queries(), seed);
    k = normal(n.keys(), seed + 1);
    v = normal(n.keys(), seed + 2);
    dout = normal(n.queries(), seed + 3);
    directions = normal(M * n.D, seed + 4);
    options.causal = causal;
    options.n_features = M;
  }

  LinearAttentionOptions ready() const {
    LinearAttentionOptions o = options;
    o.directions = o.n_features > 0 ? directions.data() : nullptr;
    o.lengths = lengths.empty() ? nullptr : lengths.data();
    return o;
  }
};

struct Results {
  std::vector<float> out, den, dq, dk, dv;
};

struct Views {
  const AttentionShape& n;
  Tensor query(std::vector<float>& x) const { return {x.data(), {n.B, n.T, n.H, n.D}}; }
  Tensor key(std::vector<float>& x) const { return {x.data(), {n.B, n.S, n.Hkv, n.D}}; }
};

std::vector<float> scratch_for(const AttentionShape& n, const LinearAttentionOptions& o) {
  float* const none = nullptr;
  return poison(static_cast<std::int64_t>(
      linear_attention_scratch({none, {n.B, n.T, n.H, n.D}}, {none, {n.B, n.S, n.Hkv, n.D}}, o)));
}

Results run(Inputs in, float beta = 0, const Results* before = nullptr) {
  const AttentionShape& n = in.n;
  const Views view{n};
  const LinearAttentionOptions o = in.ready();
  Results r = before ? *before : Results{{}, {}, poison(n.queries()), poison(n.keys()), poison(n.keys())};
  r.out = poison(n.queries()), r.den = poison(n.B * n.H * n.T);
  auto scratch = scratch_for(n, o);
  linear_attention_forward(view.query(r.out), r.den.data(), view.query(in.q), view.key(in.k), view.key(in.v),
                           o, {}, scratch);
  scratch = scratch_for(n, o);
  linear_attention_backward({view.query(r.dq), beta}, {view.key(r.dk), beta}, {view.key(r.dv), beta},
                            view.query(in.dout), r.den.data(), view.query(in.q), view.key(in.k),
                            view.key(in.v), o, scratch);
  return r;
}

void check_against_reference(const Inputs& in) {
  INFO("B " << in.n.B << " T " << in.n.T << " S " << in.n.S << " H " << in.n.H << " over " << in.n.Hkv
            << " D " << in.n.D << " M " << in.options.n_features << " causal " << in.options.causal);
  const auto q = widen(in.q), k = widen(in.k), v = widen(in.v), dout = widen(in.dout);
  const LinearAttentionOptions o = in.ready();
  const auto g = linear_attention_gradients(in.n, dout, q, k, v, o);
  const Results got = run(in);
  CHECK(relative_error(got.out, linear_attention(in.n, q, k, v, o)) < tolerance);
  // A row of one key has da = 0 exactly; what rounding leaves of it is measured against gradients of size 1.
  CHECK(relative_error(got.dq, g.dq, 1) < tolerance);
  CHECK(relative_error(got.dk, g.dk, 1) < tolerance);
  CHECK(relative_error(got.dv, g.dv, 1) < tolerance);
}

}  // namespace

TEST_CASE("linear attention equals its own quadratic form, forward and backward") {
  for (const bool causal : {true, false})
    for (const std::int64_t M : {0, 1, 24})
      for (const std::int64_t T : {1, 2, 64, 65, 150}) {
        check_against_reference(Inputs({1, T, T, 2, 16}, M, causal));
        check_against_reference(Inputs({2, T, T, 4, 5, 2}, M, causal));
      }
  for (const std::int64_t D : {1, 17, 33, 64, 100}) {
    check_against_reference(Inputs({1, 70, 70, 2, D, 1}, 0, true));
    check_against_reference(Inputs({1, 70, 70, 2, D, 1}, 40, true));
  }
}

TEST_CASE("linear attention with hidden keys, and with other keys than queries") {
  for (const std::int64_t M : {0, 24})
    for (const bool causal : {true, false}) {
      Inputs in({4, 90, 90, 2, 12, 1}, M, causal);
      in.lengths = {0, 1, 69, 90};
      check_against_reference(in);
      Inputs dirty = in;
      for (std::int64_t b = 0; b < in.n.B; ++b)
        for (std::int64_t s = in.lengths[static_cast<std::size_t>(b)]; s < in.n.S; ++s)
          for (std::int64_t d = 0; d < in.n.D; ++d)
            dirty.k[in.n.k(b, s, 0, d)] = dirty.v[in.n.k(b, s, 0, d)] =
                std::numeric_limits<float>::quiet_NaN();
      const Results a = run(in), b = run(dirty);
      CHECK(a.out == b.out);
      CHECK(a.dq == b.dq);
      CHECK(a.dk == b.dk);
      CHECK(a.dv == b.dv);
      for (std::size_t i = 0; i < in.n.q(1, 0, 0, 0); ++i) CHECK((a.out[i] == 0 && a.dq[i] == 0));
    }
  for (const std::int64_t M : {0, 24})
    for (const std::int64_t T : {1, 70}) check_against_reference(Inputs({2, T, 130, 4, 12, 2}, M, false));
}

TEST_CASE("linear attention with random shapes") {
  const RandomStream stream(23, site_hash("linear"), 0);
  for (std::uint64_t round = 0; round < 30; ++round) {
    const auto r = stream.at(round, 0), s = stream.at(round, 1);
    const auto up_to = [](std::uint32_t bits, std::int64_t n) {
      return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n), bits, 0)) + 1;
    };
    const std::int64_t Hkv = up_to(r[0], 2), H = Hkv * up_to(r[1], 3), T = up_to(r[2], 140),
                       B = up_to(s[3], 3);
    const bool causal = s[0] % 2 == 0;
    Inputs in({B, T, causal ? T : up_to(s[1], 140), H, up_to(r[3], 40), Hkv},
              s[0] % 3 == 0 ? 0 : up_to(s[2], 60), causal, round);
    for (std::int64_t b = 0; s[0] % 5 == 0 && b < B; ++b)
      in.lengths.push_back(static_cast<int>(b * in.n.S / B));
    check_against_reference(in);
  }
}

TEST_CASE("the reference's gradients of linear attention equal dual numbers") {
  for (const std::int64_t M : {0, 5})
    for (const bool causal : {true, false}) {
      Inputs in({2, 4, causal ? 4 : 5, 4, 3, 2}, M, causal);
      in.lengths = {4, 2};
      const LinearAttentionOptions o = in.ready();
      const std::vector<float> inputs[3] = {in.q, in.k, in.v};
      const auto g =
          linear_attention_gradients(in.n, widen(in.dout), widen(in.q), widen(in.k), widen(in.v), o);
      const std::vector<double>* wanted[3] = {&g.dq, &g.dk, &g.dv};
      for (int which = 0; which < 3; ++which) {
        const auto by_dual = gradient(inputs[which], [&](const std::vector<Dual>& x) {
          std::vector<Dual> p[3];
          for (int i = 0; i < 3; ++i) p[i] = i == which ? x : constants(inputs[i]);
          return weighted(in.dout, linear_attention(in.n, p[0], p[1], p[2], o));
        });
        CHECK(relative_error(*wanted[which], by_dual, 1) < 1e-12);  // double rounding, sums of some ten terms
      }
    }
}

TEST_CASE("linear attention continues a state, however the tokens are cut") {
  for (const std::int64_t M : {0, 24})
    for (const std::int64_t Hkv : {1, 2}) {
      Inputs in({2, 150, 150, 4, 20, Hkv}, M, true);
      const LinearAttentionOptions o = in.ready();
      const Results whole = run(in);
      for (const std::vector<std::int64_t>& cuts :
           {std::vector<std::int64_t>{150}, {1, 1, 1, 147}, {64, 86}, {63, 1, 65, 21}}) {
        std::vector<float> state =
            poison(in.n.B * Hkv * linear_attention_state_size(feature_count(in.n, o), in.n.D));
        std::int64_t at = 0;
        for (const std::int64_t n : cuts) {
          const auto part = [&](std::vector<float>& x, std::int64_t heads) {
            Tensor view(x.data() + at * heads * in.n.D, {in.n.B, n, heads, in.n.D});
            view.stride[0] = in.n.T * heads * in.n.D;
            return view;
          };
          std::vector<float> out = poison(in.n.B * n * in.n.H * in.n.D), den = poison(in.n.B * in.n.H * n);
          auto scratch = scratch_for(in.n, o);
          linear_attention_forward(Tensor(out.data(), {in.n.B, n, in.n.H, in.n.D}), den.data(),
                                   part(in.q, in.n.H), part(in.k, Hkv), part(in.v, Hkv), o,
                                   {state.data(), at == 0}, scratch);
          for (std::int64_t b = 0; b < in.n.B; ++b)
            for (std::int64_t i = 0; i < n * in.n.H * in.n.D; ++i)
              CHECK(std::abs(out[static_cast<std::size_t>(b * n * in.n.H * in.n.D + i)] -
                             whole.out[in.n.q(b, at, 0, 0) + static_cast<std::size_t>(i)]) < tolerance);
          at += n;
        }
      }
    }
}

TEST_CASE("FAVOR+ nears softmax attention as its features grow") {
  const AttentionShape n{1, 100, 100, 1, 16};
  for (const bool causal : {true, false}) {
    AttentionOptions softmax;
    softmax.scale = 0.25F;
    softmax.mask.causal = causal;
    double before = 1e30;
    for (const std::int64_t M : {16, 256, 4096}) {
      double squares = 0;
      for (std::uint64_t draw = 0; draw < 4; ++draw) {
        Inputs in(n, M, causal, 100 + draw);
        for (auto* x : {&in.q, &in.k})  // scores of size 1/4: larger ones need many more features
          for (float& number : *x) number *= 0.5F;
        const auto exact = attention(n, widen(in.q), widen(in.k), widen(in.v), softmax);
        const auto got = run(in).out;
        for (std::size_t i = 0; i < exact.size(); ++i) squares += std::pow(double(got[i]) - exact[i], 2);
      }
      const double error = std::sqrt(squares / (4.0 * static_cast<double>(n.queries())));
      CAPTURE(causal, M, error);
      CHECK(error < before / 2);  // independent draws: a quarter for sixteen times the features
      before = error;
    }
    CHECK(before < 0.05);  // of values of size 1
  }
}

TEST_CASE("FAVOR+'s exponents overflow nowhere") {
  for (const bool causal : {true, false})
    for (const float size : {30.0F, 1000.0F}) {
      Inputs in({1, 200, 200, 1, 32}, 40, causal);
      for (std::size_t i = 0; i < in.k.size(); ++i) {
        in.k[i] *= 1 + size * static_cast<float>(i) / static_cast<float>(in.k.size());
        in.q[i] *= size;
      }
      const Results got = run(in);
      for (const auto* all : {&got.out, &got.dq, &got.dk, &got.dv})
        for (const float x : *all) REQUIRE(std::isfinite(x));
    }
}

TEST_CASE("linear attention adds to a gradient that is there, and skips one that nobody wants") {
  for (const std::int64_t M : {0, 24}) {
    Inputs in({2, 70, 70, 4, 20, 2}, M, true);
    const LinearAttentionOptions o = in.ready();
    Results before{{}, {}, normal(in.n.queries(), 21), normal(in.n.keys(), 22), normal(in.n.keys(), 23)};
    Results zero = run(in), one = run(in, 1, &before);
    const auto check = [](const auto& added, const auto& alone, const auto& there) {
      for (std::size_t i = 0; i < there.size(); ++i)
        CHECK(std::abs(added[i] - (alone[i] + there[i])) < 2e-6 * (1 + std::abs(alone[i])));
    };
    check(one.dq, zero.dq, before.dq);
    check(one.dk, zero.dk, before.dk);
    check(one.dv, zero.dv, before.dv);
    const Views view{in.n};
    const std::vector<float>* alone[3] = {&zero.dq, &zero.dk, &zero.dv};
    for (int which = 0; which < 3; ++which) {
      std::vector<float> got = poison(static_cast<std::int64_t>(alone[which]->size()));
      Sink sinks[3];
      sinks[which].to = which == 0 ? view.query(got) : view.key(got);
      auto scratch = scratch_for(in.n, o);
      linear_attention_backward(sinks[0], sinks[1], sinks[2], view.query(in.dout), zero.den.data(),
                                view.query(in.q), view.key(in.k), view.key(in.v), o, scratch);
      CHECK(got == *alone[which]);
    }
  }
}

TEST_CASE("a NaN or an infinity that linear attention sees is not swallowed") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t M : {0, 1, 24})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf})
      for (const std::int64_t token : {0, 10}) {
        CAPTURE(M, bad, token);
        const Inputs clean({1, 20, 20, 1, 8}, M, true);
        Inputs of_key = clean, of_query = clean;
        of_key.k[clean.n.k(0, token, 0, 3)] = bad;
        const Results by_key = run(of_key);
        of_query.q[clean.n.q(0, token, 0, 3)] = bad;
        const Results by_query = run(of_query);
        for (std::int64_t t = 0; t < 20; ++t) {
          CHECK(std::isnan(by_key.out[clean.n.q(0, t, 0, 0)]) == (t >= token));
          CHECK(std::isnan(by_query.out[clean.n.q(0, t, 0, 0)]) == (t == token));
        }
      }
}

TEST_CASE("linear attention gives the same bits on any number of threads") {
  for (const std::int64_t M : {0, 24}) {
    const Inputs in({3, 130, 130, 6, 20, 3}, M, true);
    CHECK(same_on_any_threads([&] { return run(in).out; }));
    CHECK(same_on_any_threads([&] { return run(in).dq; }));
    CHECK(same_on_any_threads([&] { return run(in).dk; }));
    CHECK(same_on_any_threads([&] { return run(in).dv; }));
  }
}
