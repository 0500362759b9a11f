#include "quern/kernels/attention.hpp"

#include "kernels/attention_inputs.hpp"
#include "quern/base/parallel.hpp"

using namespace quern;
using namespace quern::reference;

TEST_CASE("attention forward and backward equal the double reference") {
  for (const std::int64_t T : {1, 2, 63, 65, 127})
    for (const std::int64_t D : {1, 16, 17, 20, 64})
      check_against_reference(AttentionInputs({1, T, T, 2, D}));
  for (const std::int64_t D : {33, 80, 128, 255, 256})
    check_against_reference(AttentionInputs({1, 65, 65, 2, D}));
  check_against_reference(AttentionInputs({2, 40, 40, 3, 24}, {false, 0, nullptr}));
  check_against_reference(AttentionInputs({1, 200, 200, 1, 32}));
}

TEST_CASE("attention with keys before the first query, other lengths than the queries', and hidden keys") {
  for (const std::int64_t T : {1, 3, 5, 17, 70}) {
    check_against_reference(AttentionInputs({2, T, T + 71, 2, 20}, {true, 71, nullptr}));
    check_against_reference(
        AttentionInputs({2, T, 150, 1, 16}, {true, 9, nullptr}));  // a cache with room left
    check_against_reference(AttentionInputs({2, T, 37, 2, 20}, {false, 0, nullptr}));  // cross-attention
    check_against_reference(AttentionInputs({1, T, 4, 2, 8}, {true, 0, nullptr}));
    const std::int32_t lengths[] = {0, 1, 69, 90};
    check_against_reference(AttentionInputs({4, T, 90, 2, 12}, {false, 0, lengths}));
    check_against_reference(AttentionInputs({4, T, 90, 2, 12}, {true, 15, lengths}));
  }
}

TEST_CASE("heads of queries share heads of keys and values") {
  for (const std::int64_t T : {1, 3, 20, 70})
    for (const std::int64_t key_heads : {1, 2, 3}) {
      check_against_reference(AttentionInputs({2, T, T, 6, 20, key_heads}));
      check_against_reference(AttentionInputs({1, T, T + 33, 6, 16, key_heads}, {true, 33, nullptr}));
    }
  AttentionInputs in({2, 40, 40, 4, 8, 2});
  in.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, 5);
  check_against_reference(in);
}

TEST_CASE("scores fall with the distance by ALiBi's slopes") {
  for (const std::int64_t T : {1, 3, 20, 70})
    for (const std::int64_t H : {1, 2, 3, 6}) {
      const std::vector<float> slopes = alibi_slopes(H);
      for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{true, 40, nullptr, 50}}) {
        AttentionInputs in({2, T, T + mask.offset, H, 12, 1}, mask);
        in.options.slopes = slopes.data();
        check_against_reference(in);
      }
    }
  const std::vector<float> slopes = alibi_slopes(2);
  AttentionInputs dropped({1, 80, 80, 2, 16});
  dropped.options.slopes = slopes.data();
  dropped.options.dropout = Dropout(RandomStream(11, 12, 13), 0.3, 5);
  check_against_reference(dropped);
}

TEST_CASE("the reference's gradient formulas equal dual numbers") {
  const AttentionShape n{2, 4, 5, 4, 3, 2};
  const std::int32_t lengths[] = {5, 2};
  const std::vector<float> slopes = alibi_slopes(4);
  AttentionInputs in(n, {true, 1, lengths, 3});
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
      AttentionInputs in({2, T, T + 5, 2, 20}, {true, 5, nullptr});
      in.options.dropout = Dropout(RandomStream(11, 12, 13), rate, 0x123456789ULL);
      check_against_reference(in);
    }
  AttentionInputs in({1, 40, 40, 1, 8});  // the low word of a row's number wraps round within a panel
  in.options.dropout = Dropout(RandomStream(1, 2, 3), 0.3, 0xffffffffULL / 40);
  check_against_reference(in);
}

TEST_CASE("attention adds to a gradient that is there, and skips one that nobody wants") {
  const AttentionInputs in({2, 70, 70, 2, 20});
  const AttentionResults zero = run(in);
  const std::vector<float> before[3] = {normal(in.n.queries(), 21), normal(in.n.keys(), 22),
                                        normal(in.n.keys(), 23)};
  const AttentionResults one = run(in, 1, before);
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

TEST_CASE("a NaN that is seen is not swallowed") {
  for (const std::int64_t T : {1, 20}) {
    AttentionInputs in({1, T, 20, 1, 8}, {false, 0, nullptr});
    in.k[3 * 8] = std::numeric_limits<float>::quiet_NaN();
    const AttentionResults got = run(in);
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
  AttentionInputs in({1, T, 2, 1, 2}, {false, 0, nullptr});
  in.options.scale = 1;
  in.k = {0, 0, 1, 0};
  in.v = {1, 0, 0, 1};
  for (std::size_t t = 0; t < T; ++t) in.q[2 * t] = -x[t];
  const auto check = [](const float* out, double score) {
    const double error = std::abs(double(out[1]) / double(out[0]) - std::exp(-score));
    CHECK(error <= (3e-7 + 4 * 0x1p-24 + 0x1p-23 * score) * std::exp(-score) + 0x1p-126);
  };
  const AttentionResults got = run(in);
  for (std::size_t t = 0; t < T; ++t) check(&got.out[2 * t], x[t]);
  AttentionInputs one({1, 1, 2, 1, 2}, {false, 0, nullptr});
  one.options.scale = 1;
  one.k = in.k;
  one.v = in.v;
  for (std::size_t t = 0; t < T; t += 7) {
    one.q[0] = -x[t];
    check(run(one).out.data(), x[t]);
  }
}

TEST_CASE("the weights for looking at are those of the tiles") {
  // Values that read the weights off: key s has 1 in column s.
  const std::vector<float> slopes = alibi_slopes(4);
  const std::int32_t lengths[] = {0, 37};
  for (const std::int64_t T : {1, 3, 40})
    for (const AttentionMask& mask :
         {AttentionMask{true, 5}, AttentionMask{true, 5, lengths, 9, 2}, AttentionMask{false, 0, lengths},
          AttentionMask{false, 0, lengths, 7, 3}}) {
      AttentionInputs in({2, T, 45, 4, 45, 2}, mask);
      in.options.slopes = mask.causal ? slopes.data() : nullptr;
      std::fill(in.v.begin(), in.v.end(), 0.0F);
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t s = 0; s < 45; ++s)
          for (const std::int64_t h : {0, 2}) in.v[in.n.k(b, s, h, s)] = 1;
      const AttentionResults got = run(in);
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t h = 0; h < 4; ++h) {
          std::vector<float> weights = poison(T * 45);
          attention_weights(weights, Tensor(in.q.data(), {2, T, 4, 45}), Tensor(in.k.data(), {2, 45, 2, 45}),
                            in.options, b, h);
          for (std::int64_t t = 0; t < T; ++t) {
            double sum = 0, worst = 0;
            for (std::int64_t s = 0; s < 45; ++s) {
              const float weight = weights[std::size_t(t * 45 + s)];
              sum += double(weight);
              worst = std::max(worst, std::abs(double(weight) - double(got.out[in.n.q(b, t, h, s)])));
              if (!mask.sees(b, t, s, 45)) CHECK(weight == 0);
            }
            CHECK(worst < 1e-6);
            const auto keys = mask.span(b, t, 45);
            CHECK(std::abs(sum - (keys.end > 0 ? 1 : 0)) < 1e-6);
          }
        }
    }
}

TEST_CASE("decoding one query at a time equals the whole sequence") {
  const AttentionShape n{2, 150, 150, 2, 40};
  const AttentionInputs in(n);
  const AttentionResults whole = run(in);
  for (const std::int64_t t : {0, 1, 63, 64, 100, 149})
    for (const std::int64_t count : {1, 2, 7}) {
      if (t + count > n.T) continue;
      AttentionInputs step({n.B, count, n.S, n.H, n.D}, {true, t, nullptr});
      step.k = in.k;
      step.v = in.v;
      for (std::int64_t b = 0; b < n.B; ++b)
        std::copy_n(in.q.begin() + std::int64_t(n.q(b, t, 0, 0)), count * n.H * n.D,
                    step.q.begin() + std::int64_t(step.n.q(b, 0, 0, 0)));
      const AttentionResults got = run(step);
      for (std::int64_t b = 0; b < n.B; ++b)
        for (std::int64_t i = 0; i < count * n.H * n.D; ++i)
          CHECK(std::abs(got.out[step.n.q(b, 0, 0, 0) + std::size_t(i)] -
                         whole.out[n.q(b, t, 0, 0) + std::size_t(i)]) < 1e-6 * 4);  // outputs reach 4
    }
}

TEST_CASE("attention's bits do not depend on the number of threads") {
  const int threads = thread_count();
  AttentionInputs in({3, 130, 130, 6, 20, 3});
  in.options.dropout = Dropout(RandomStream(5, 6, 7), 0.2, 0);
  set_thread_count(1);
  const AttentionResults one = run(in);
  for (const int many : {2, 3, 32}) {  // 32 are more than there are sequences and heads
    set_thread_count(many);
    const AttentionResults other = run(in);
    CHECK(same_bits(one.out, other.out));
    CHECK(same_bits(one.lse, other.lse));
    CHECK(same_bits(one.dq, other.dq));
    CHECK(same_bits(one.dk, other.dk));
    CHECK(same_bits(one.dv, other.dv));
  }
  set_thread_count(threads);
}
