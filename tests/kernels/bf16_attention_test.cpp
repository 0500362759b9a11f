// Attention of bf16 against that of the same numbers as f32: see bf16_test.cpp.
#include "kernels/twin.hpp"
#include "quern/kernels/attention.hpp"
#include "quern/kernels/linear_attention.hpp"

using namespace quern;
using namespace quern::reference;

TEST_CASE("attention of bf16, whole tiles and single queries, forward and backward", "[bf16]") {
  const struct {
    std::int64_t T, S, H, D;
    double rate;
    std::int64_t Hkv = H, window = 0;
    bool additive = false;
  } cases[] = {{1, 70, 2, 17, 0},
               {3, 3, 1, 64, 0},
               {70, 70, 2, 16, 0},
               {70, 70, 2, 24, 0.3},
               {65, 130, 1, 64, 0},
               {2, 2, 2, 80, 0},
               {63, 63, 1, 128, 0},
               {127, 127, 2, 20, 0.1},
               {513, 513, 1, 80, 0},
               {65, 65, 2, 128, 0.1},
               {33, 40, 4, 16, 0, 2},
               {70, 80, 2, 20, 0.2, 1, 33},
               {1, 80, 2, 20, 0, 1, 33},
               {70, 80, 2, 20, 0.2, 1, 0, true},
               {1, 80, 2, 20, 0, 1, 33, true}};
  for (const auto& c : cases) {
    const std::int64_t B = 2;
    Twin q(B * c.T * c.H * c.D, 1), k(B * c.S * c.Hkv * c.D, 2), v(B * c.S * c.Hkv * c.D, 3);
    Twin out(B * c.T * c.H * c.D), dout(B * c.T * c.H * c.D, 4);
    std::vector<float> lse = poison(B * c.H * c.T), lse32 = lse;
    const std::vector<float> slopes = alibi_slopes(c.H);
    AttentionOptions options{0.3F, {}, nullptr, {}};
    options.mask.offset = c.S - c.T;
    options.mask.window = c.window;
    if (c.window > 0) options.slopes = slopes.data();
    const std::vector<float> w = normal(c.H * c.D, 8, 0.3);
    if (c.additive) options.scale = 1, options.additive = w.data();
    if (c.rate > 0) options.dropout = Dropout(RandomStream(1, 2, 3), c.rate, 0);
    const auto shape_q = {B, c.T, c.H, c.D}, shape_k = {B, c.S, c.Hkv, c.D};
    attention_forward(out.h(shape_q), lse.data(), q.h(shape_q), k.h(shape_k), v.h(shape_k), options);
    attention_forward(out.f(shape_q), lse32.data(), q.f(shape_q), k.f(shape_k), v.f(shape_k), options);
    CAPTURE(c.T, c.S, c.D);
    CHECK(out.rounded_weights());
    if (isa() == Isa::amx) {
      CHECK(relative_error(lse, lse32) < 1e-5);  // the same products, summed in another order
    } else {
      CHECK(same(lse, lse32));
    }
    for (std::size_t i = 0; i < out.half.size(); ++i)
      out.wide[i] = to_float(out.half[i]);  // what backward is given
    for (const float beta : {0.0F, 1.0F}) {
      const auto sink = [beta](std::int64_t n, std::uint64_t seed) {
        return beta == 0 ? Twin(n) : Twin(n, seed);
      };
      Twin dq = sink(B * c.T * c.H * c.D, 5), dk = sink(B * c.S * c.Hkv * c.D, 6),
           dv = sink(B * c.S * c.Hkv * c.D, 7);
      std::vector<float> scratch(attention_backward_scratch(B, c.T, c.S, c.Hkv, c.D, c.H));
      std::vector<float> dw = poison(c.H * c.D), dw32 = dw;
      const auto vectors = [&](std::vector<float>& to) {
        return c.additive ? Sink{{to.data(), {c.H, c.D}}, 0} : Sink();
      };
      attention_backward({dq.h(shape_q), beta}, {dk.h(shape_k), beta}, {dv.h(shape_k), beta}, dout.h(shape_q),
                         out.h(shape_q), lse.data(), q.h(shape_q), k.h(shape_k), v.h(shape_k), options,
                         scratch, vectors(dw));
      attention_backward({dq.f(shape_q), beta}, {dk.f(shape_k), beta}, {dv.f(shape_k), beta}, dout.f(shape_q),
                         out.f(shape_q), lse.data(), q.f(shape_q), k.f(shape_k), v.f(shape_k), options,
                         scratch, vectors(dw32));
      CHECK((!c.additive || same(dw, dw32)));
      CHECK(dq.rounded_weights());
      CHECK(dk.rounded_weights());
      CHECK(dv.rounded_weights());
    }
  }
}

TEST_CASE("linear attention of bf16, forward and backward", "[bf16]") {
  constexpr std::int64_t B = 2, T = 70, H = 4, Hkv = 2, D = 20, M = 24;
  const std::vector<float> directions = normal(M * D, 9);
  for (const bool favor : {false, true}) {
    CAPTURE(favor);
    LinearAttentionOptions options;
    if (favor) options.directions = directions.data(), options.n_features = M;
    Twin q(B * T * H * D, 1), k(B * T * Hkv * D, 2), v(B * T * Hkv * D, 3), out(B * T * H * D);
    Twin dout(B * T * H * D, 4), dq(B * T * H * D), dk(B * T * Hkv * D), dv(B * T * Hkv * D);
    std::vector<float> den = poison(B * H * T), den32 = den;
    const auto shape_q = {B, T, H, D}, shape_k = {B, T, Hkv, D};
    std::vector<float> scratch(linear_attention_scratch(q.f(shape_q), k.f(shape_k), options));
    linear_attention_forward(out.h(shape_q), den.data(), q.h(shape_q), k.h(shape_k), v.h(shape_k), options,
                             {}, scratch);
    linear_attention_forward(out.f(shape_q), den32.data(), q.f(shape_q), k.f(shape_k), v.f(shape_k), options,
                             {}, scratch);
    CHECK(out.rounded());
    CHECK(same(den, den32));
    linear_attention_backward({dq.h(shape_q), 0}, {dk.h(shape_k), 0}, {dv.h(shape_k), 0}, dout.h(shape_q),
                              den.data(), q.h(shape_q), k.h(shape_k), v.h(shape_k), options, scratch);
    linear_attention_backward({dq.f(shape_q), 0}, {dk.f(shape_k), 0}, {dv.f(shape_k), 0}, dout.f(shape_q),
                              den.data(), q.f(shape_q), k.f(shape_k), v.f(shape_k), options, scratch);
    CHECK(dq.rounded());
    CHECK(dk.rounded());
    CHECK(dv.rounded());
  }
}
