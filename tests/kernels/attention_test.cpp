#include "quern/kernels/attention.hpp"

#include <cstring>

#include "quern/base/parallel.hpp"
#include "reference/attention.hpp"
#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

// Rounding: a score is a sum of D products of numbers near 1, scaled by 1 / sqrt(D): an error of a few 2^-24,
// which is the relative error of its weight, beside 3e-7 of the exponential. Outputs and gradients are sums
// of up to 130 such terms with random signs. 5e-6 of the tensor's largest number holds for all of it with a
// factor of about 4 to spare.
constexpr double tolerance = 5e-6;

/// Inputs as the engine has them: q, k, v in one packed projection (B,T,3,H,D) when S = T; else k and v in
/// one cache.
struct Inputs {
  AttentionShape n;
  std::vector<float> q, k, v, dout;
  AttentionOptions options;

  explicit Inputs(AttentionShape n_, AttentionMask mask = {}, std::uint64_t seed = 1) : n(n_) {
    q = normal(n.queries(), seed);
    k = normal(n.keys(), seed + 1);
    v = normal(n.keys(), seed + 2);
    dout = normal(n.queries(), seed + 3);
    options.scale = static_cast<float>(1 / std::sqrt(double(n.D)));
    options.mask = mask;
  }
};

/// A (B,rows,H,D) view on part `which` of a (B,rows,parts,H,D) buffer.
Tensor part_of(float* data, const AttentionShape& n, std::int64_t H, std::int64_t rows, std::int64_t parts,
               std::int64_t which) {
  Tensor x(data, {n.B, rows, H, n.D});
  x.data = data + which * H * n.D;
  x.stride[1] = parts * H * n.D;
  x.stride[0] = rows * x.stride[1];
  return x;
}

void scatter(const Tensor& to, const std::vector<float>& from) {
  for (std::int64_t b = 0, i = 0; b < to.dim[0]; ++b)
    for (std::int64_t t = 0; t < to.dim[1]; ++t)
      for (std::int64_t h = 0; h < to.dim[2]; ++h)
        for (std::int64_t d = 0; d < to.dim[3]; ++d, ++i)
          to.f32()[b * to.stride[0] + t * to.stride[1] + h * to.stride[2] + d] =
              from[static_cast<std::size_t>(i)];
}

std::vector<float> gather(const Tensor& from) {
  std::vector<float> to;
  for (std::int64_t b = 0; b < from.dim[0]; ++b)
    for (std::int64_t t = 0; t < from.dim[1]; ++t)
      for (std::int64_t h = 0; h < from.dim[2]; ++h)
        for (std::int64_t d = 0; d < from.dim[3]; ++d)
          to.push_back(from.f32()[b * from.stride[0] + t * from.stride[1] + h * from.stride[2] + d]);
  return to;
}

struct Results {
  std::vector<float> out, lse, dq, dk, dv;
};

Results run(const Inputs& in, float beta = 0, const std::vector<float>* before = nullptr) {
  const AttentionShape& n = in.n;
  std::vector<float> queries = poison(3 * n.queries()), keys = poison(2 * n.keys());
  const Tensor q = part_of(queries.data(), n, n.H, n.T, 3, 1);
  const Tensor k = part_of(keys.data(), n, n.Hkv, n.S, 2, 0), v = part_of(keys.data(), n, n.Hkv, n.S, 2, 1);
  scatter(q, in.q);
  scatter(k, in.k);
  scatter(v, in.v);
  std::vector<float> out = poison(n.queries()), lse = poison(n.B * n.H * n.T), dout = in.dout;
  const Tensor out_view(out.data(), {n.B, n.T, n.H, n.D}), dout_view(dout.data(), {n.B, n.T, n.H, n.D});
  attention_forward(out_view, lse.data(), q, k, v, in.options);

  std::vector<float> dqueries = poison(3 * n.queries()), dkeys = poison(2 * n.keys());
  const Sink dq{part_of(dqueries.data(), n, n.H, n.T, 3, 1), beta};
  const Sink dk{part_of(dkeys.data(), n, n.Hkv, n.S, 2, 0), beta};
  const Sink dv{part_of(dkeys.data(), n, n.Hkv, n.S, 2, 1), beta};
  if (before) {
    scatter(dq.to, before[0]);
    scatter(dk.to, before[1]);
    scatter(dv.to, before[2]);
  }
  std::vector<float> scratch(attention_backward_scratch(n.B, n.T, n.S, n.Hkv, n.D),
                             std::numeric_limits<float>::quiet_NaN());
  attention_backward(dq, dk, dv, dout_view, out_view, lse.data(), q, k, v, in.options, scratch);
  return {out, lse, gather(dq.to), gather(dk.to), gather(dv.to)};
}

void check_against_reference(const Inputs& in) {
  INFO("B " << in.n.B << " T " << in.n.T << " S " << in.n.S << " H " << in.n.H << " over " << in.n.Hkv
            << " D " << in.n.D << " causal " << in.options.mask.causal << " offset " << in.options.mask.offset
            << " window " << in.options.mask.window);
  const auto q = widen(in.q), k = widen(in.k), v = widen(in.v), dout = widen(in.dout);
  std::vector<double> lse;
  const auto out = attention(in.n, q, k, v, in.options, &lse);
  const auto g = attention_gradients(in.n, dout, q, k, v, in.options);
  const Results got = run(in);
  CHECK(relative_error(got.out, out) < tolerance);
  for (std::size_t i = 0; i < lse.size(); ++i)
    if (std::isinf(lse[i]))
      CHECK(got.lse[i] == -std::numeric_limits<float>::infinity());
    else
      CHECK(std::abs(got.lse[i] - lse[i]) < 1e-6 * std::max(1.0, std::abs(lse[i])));
  // A row of one key has dS = 0 exactly; what rounding leaves of it is measured against gradients of size 1.
  CHECK(relative_error(got.dq, g.dq, 1) < tolerance);
  CHECK(relative_error(got.dk, g.dk, 1) < tolerance);
  CHECK(relative_error(got.dv, g.dv, 1) < tolerance);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
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
}

TEST_CASE("attention forward and backward equal the double reference") {
  for (const std::int64_t T : {1, 2, 63, 65, 127})
    for (const std::int64_t D : {1, 16, 17, 20, 64}) check_against_reference(Inputs({1, T, T, 2, D}));
  for (const std::int64_t D : {33, 80, 128, 255, 256}) check_against_reference(Inputs({1, 65, 65, 2, D}));
  check_against_reference(Inputs({2, 40, 40, 3, 24}, {false, 0, nullptr}));
  check_against_reference(Inputs({1, 200, 200, 1, 32}));
}

TEST_CASE("attention with keys before the first query, other lengths than the queries', and hidden keys") {
  for (const std::int64_t T : {1, 3, 5, 17, 70}) {
    check_against_reference(Inputs({2, T, T + 71, 2, 20}, {true, 71, nullptr}));
    check_against_reference(Inputs({2, T, 150, 1, 16}, {true, 9, nullptr}));  // a cache with room left
    check_against_reference(Inputs({2, T, 37, 2, 20}, {false, 0, nullptr}));  // cross-attention
    check_against_reference(Inputs({1, T, 4, 2, 8}, {true, 0, nullptr}));
    const std::int32_t lengths[] = {0, 1, 69, 90};
    check_against_reference(Inputs({4, T, 90, 2, 12}, {false, 0, lengths}));
    check_against_reference(Inputs({4, T, 90, 2, 12}, {true, 15, lengths}));
  }
}

TEST_CASE("heads of queries share heads of keys and values") {
  for (const std::int64_t T : {1, 3, 20, 70})
    for (const std::int64_t key_heads : {1, 2, 3}) {
      check_against_reference(Inputs({2, T, T, 6, 20, key_heads}));
      check_against_reference(Inputs({1, T, T + 33, 6, 16, key_heads}, {true, 33, nullptr}));
    }
  Inputs in({2, 40, 40, 4, 8, 2});
  in.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, 5);
  check_against_reference(in);
}

TEST_CASE("a sliding window of keys") {
  for (const std::int64_t T : {1, 3, 20, 65, 200})
    for (const std::int64_t window : {1, 2, 7, 8, 63, 64, 100, 1000}) {
      check_against_reference(Inputs({1, T, T, 2, 20}, {true, 0, nullptr, window}));
      check_against_reference(Inputs({2, T, T + 71, 2, 16, 1}, {true, 71, nullptr, window}));
      const std::int32_t lengths[] = {0, 1, 69, 90};
      check_against_reference(Inputs({4, T, 90, 1, 12}, {true, 15, lengths, window}));
    }
  check_against_reference(Inputs({1, 130, 130, 1, 256}, {true, 0, nullptr, 40}));  // tiles of fewer keys
  Inputs dropped({2, 150, 150, 2, 20}, {true, 0, nullptr, 37});
  dropped.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, 5);
  check_against_reference(dropped);
}

TEST_CASE("a window of one key sees only itself") {
  const Inputs in({2, 70, 70, 2, 20}, {true, 0, nullptr, 1});
  const Results got = run(in);
  CHECK(relative_error(got.out, widen(in.v)) < 1e-6);
  CHECK(relative_error(got.dv, widen(in.dout)) < 1e-6);
}

TEST_CASE("scores fall with the distance by ALiBi's slopes") {
  for (const std::int64_t T : {1, 3, 20, 70})
    for (const std::int64_t H : {1, 2, 3, 6}) {
      const std::vector<float> slopes = alibi_slopes(H);
      for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{true, 40, nullptr, 50}}) {
        Inputs in({2, T, T + mask.offset, H, 12, 1}, mask);
        in.options.slopes = slopes.data();
        check_against_reference(in);
      }
    }
  const std::vector<float> slopes = alibi_slopes(2);
  Inputs dropped({1, 80, 80, 2, 16});
  dropped.options.slopes = slopes.data();
  dropped.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, 5);
  check_against_reference(dropped);
}

TEST_CASE("the reference's gradient formulas equal dual numbers") {
  const AttentionShape n{2, 4, 5, 4, 3, 2};
  const std::int32_t lengths[] = {5, 2};
  const std::vector<float> slopes = alibi_slopes(4);
  Inputs in(n, {true, 1, lengths, 3});
  in.options.slopes = slopes.data();
  in.options.dropout = Dropout(RandomStream(3, 4, 5), 0.25, 7);
  const auto q = widen(in.q), k = widen(in.k), v = widen(in.v), dout = widen(in.dout);
  const auto g = attention_gradients(n, dout, q, k, v, in.options);
  const auto dual = [](const std::vector<double>& x) { return std::vector<Dual>(x.begin(), x.end()); };
  std::vector<Dual> inputs[3] = {dual(q), dual(k), dual(v)};
  const std::vector<double>* wanted[3] = {&g.dq, &g.dk, &g.dv};
  for (int which = 0; which < 3; ++which)
    for (std::size_t i = 0; i < inputs[which].size(); ++i) {
      inputs[which][i].slope = 1;
      const auto out = attention(n, inputs[0], inputs[1], inputs[2], in.options);
      inputs[which][i].slope = 0;
      double slope = 0;
      for (std::size_t j = 0; j < out.size(); ++j) slope += dout[j] * out[j].slope;
      CHECK(std::abs(slope - (*wanted[which])[i]) < 1e-12);  // double rounding in sums of some ten terms
    }
}

TEST_CASE("attention drops weights by the stateless generator") {
  for (const double rate : {0.1, 0.5})
    for (const std::int64_t T : {1, 2, 19, 70}) {
      Inputs in({2, T, T + 5, 2, 20}, {true, 5, nullptr});
      in.options.dropout = Dropout(RandomStream(11, 12, 13), rate, 0x123456789ULL);
      check_against_reference(in);
    }
  Inputs in({1, 40, 40, 1, 8});  // the low word of a row's number wraps round within a panel
  in.options.dropout = Dropout(RandomStream(1, 2, 3), 0.3, 0xffffffffULL / 40);
  check_against_reference(in);
}

TEST_CASE("attention adds to a gradient that is there, and skips one that nobody wants") {
  const Inputs in({2, 70, 70, 2, 20});
  const Results zero = run(in);
  const std::vector<float> before[3] = {normal(in.n.queries(), 21), normal(in.n.keys(), 22),
                                        normal(in.n.keys(), 23)};
  const Results one = run(in, 1, before);
  const std::vector<float>*added[3] = {&one.dq, &one.dk, &one.dv}, *alone[3] = {&zero.dq, &zero.dk, &zero.dv};
  for (int which = 0; which < 3; ++which)
    for (std::size_t i = 0; i < before[which].size(); ++i)
      CHECK(std::abs((*added[which])[i] - ((*alone[which])[i] + before[which][i])) <
            1e-6);  // two roundings near 4

  std::vector<float> q = in.q, k = in.k, v = in.v, out = zero.out, dout = in.dout, got = poison(in.n.keys());
  const auto view = [&](std::vector<float>& x) { return Tensor(x.data(), {in.n.B, in.n.T, in.n.H, in.n.D}); };
  std::vector<float> scratch(attention_backward_scratch(in.n.B, in.n.T, in.n.S, in.n.H, in.n.D));
  for (int which = 0; which < 3; ++which) {
    Sink sinks[3];
    sinks[which].to = view(got);
    attention_backward(sinks[0], sinks[1], sinks[2], view(dout), view(out), zero.lse.data(), view(q), view(k),
                       view(v), in.options, scratch);
    CHECK(same_bits(got, *alone[which]));
  }
}

TEST_CASE("what lies in hidden keys and values reaches nothing") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::int32_t lengths[] = {0, 1, 66, 75};
  for (const std::int64_t T : {1, 20})
    for (const bool causal : {false, true}) {
      const AttentionShape n{4, T, 80, 2, 17};
      const AttentionMask mask{causal, 58, lengths};
      Inputs clean(n, mask), dirty(n, mask);
      for (std::int64_t b = 0; b < n.B; ++b)
        for (std::int64_t s = mask.span(b, T - 1, n.S).end; s < n.S; ++s)
          for (std::int64_t h = 0; h < n.H; ++h)
            for (std::int64_t d = 0; d < n.D; ++d) {
              dirty.k[n.k(b, s, h, d)] = d % 2 == 0 ? nan : -inf;
              dirty.v[n.k(b, s, h, d)] = d % 2 == 0 ? inf : nan;
            }
      const Results a = run(clean), b = run(dirty);
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
      Inputs clean(n, mask), dirty(n, mask);
      for (std::int64_t s = 0; s < mask.span(0, 0, n.S).begin; ++s)
        for (std::int64_t d = 0; d < n.D; ++d) {
          dirty.k[n.k(0, s, 0, d)] = d % 2 == 0 ? nan : -inf;
          dirty.v[n.k(0, s, 0, d)] = d % 2 == 0 ? inf : nan;
        }
      const Results a = run(clean), b = run(dirty);
      CAPTURE(T, window);
      CHECK(same_bits(a.out, b.out));
      CHECK(same_bits(a.dq, b.dq));
      CHECK(same_bits(a.dk, b.dk));
      CHECK(same_bits(a.dv, b.dv));
    }
}

TEST_CASE("a NaN that is seen is not swallowed") {
  for (const std::int64_t T : {1, 20}) {
    Inputs in({1, T, 20, 1, 8}, {false, 0, nullptr});
    in.k[3 * 8] = std::numeric_limits<float>::quiet_NaN();
    const Results got = run(in);
    for (const float x : got.out) CHECK(std::isnan(x));
    for (const float x : got.dv) CHECK(std::isnan(x));
  }
}

TEST_CASE("attention's weights are exact to rounding over the whole range of scores") {
  // Two keys with the scores 0 and -x, values that read the weights off: their ratio is e^-x. Its relative
  // error: 3e-7 of the exponential, a rounding each of log2(e) and of its product with x (each below 2^-24 of
  // x), and four more.
  constexpr std::int64_t T = 2000;
  std::vector<float> x(T);
  for (std::size_t t = 0; t < T; ++t) x[t] = static_cast<float>(t) * 0.05f;
  Inputs in({1, T, 2, 1, 2}, {false, 0, nullptr});
  in.options.scale = 1;
  in.k = {0, 0, 1, 0};
  in.v = {1, 0, 0, 1};
  for (std::size_t t = 0; t < T; ++t) in.q[2 * t] = -x[t];
  const auto check = [](const float* out, double score) {
    const double error = std::abs(double(out[1]) / double(out[0]) - std::exp(-score));
    CHECK(error <= (3e-7 + 4 * 0x1p-24 + 0x1p-23 * score) * std::exp(-score) + 0x1p-126);
  };
  const Results got = run(in);
  for (std::size_t t = 0; t < T; ++t) check(&got.out[2 * t], x[t]);
  Inputs one({1, 1, 2, 1, 2}, {false, 0, nullptr});
  one.options.scale = 1;
  one.k = in.k;
  one.v = in.v;
  for (std::size_t t = 0; t < T; t += 7) {
    one.q[0] = -x[t];
    check(run(one).out.data(), x[t]);
  }
}

TEST_CASE("decoding one query at a time equals the whole sequence") {
  const AttentionShape n{2, 150, 150, 2, 40};
  const Inputs in(n);
  const Results whole = run(in);
  for (const std::int64_t t : {0, 1, 63, 64, 100, 149})
    for (const std::int64_t count : {1, 2, 7}) {
      if (t + count > n.T) continue;
      Inputs step({n.B, count, n.S, n.H, n.D}, {true, t, nullptr});
      step.k = in.k;
      step.v = in.v;
      for (std::int64_t b = 0; b < n.B; ++b)
        std::copy_n(in.q.begin() + std::int64_t(n.q(b, t, 0, 0)), count * n.H * n.D,
                    step.q.begin() + std::int64_t(step.n.q(b, 0, 0, 0)));
      const Results got = run(step);
      for (std::int64_t b = 0; b < n.B; ++b)
        for (std::int64_t i = 0; i < count * n.H * n.D; ++i)
          CHECK(std::abs(got.out[step.n.q(b, 0, 0, 0) + std::size_t(i)] -
                         whole.out[n.q(b, t, 0, 0) + std::size_t(i)]) < 1e-6 * 4);  // outputs reach 4
    }
}

TEST_CASE("attention's bits do not depend on the number of threads") {
  const int threads = thread_count();
  Inputs in({3, 130, 130, 6, 20, 3});
  in.options.dropout = Dropout(RandomStream(5, 6, 7), 0.2, 0);
  set_thread_count(1);
  const Results one = run(in);
  set_thread_count(2);
  const Results two = run(in);
  set_thread_count(threads);
  CHECK(same_bits(one.out, two.out));
  CHECK(same_bits(one.lse, two.lse));
  CHECK(same_bits(one.dq, two.dq));
  CHECK(same_bits(one.dk, two.dk));
  CHECK(same_bits(one.dv, two.dv));
}
