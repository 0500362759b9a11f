// What every kernel does with bf16: numbers are widened as they are read, computed in f32 like any others,
// and rounded as they are stored. So a bf16 kernel's result is exactly the f32 kernel's on the widened
// numbers, rounded.
#include <cstring>
#include <functional>

#include "quern/base/cpu.hpp"
#include "quern/kernels/activation.hpp"
#include "quern/kernels/adamw.hpp"
#include "quern/kernels/attention.hpp"
#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/kernels/linear_attention.hpp"
#include "quern/kernels/loss.hpp"
#include "quern/kernels/norm.hpp"
#include "quern/kernels/reduce.hpp"
#include "quern/kernels/rotary.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

constexpr bf16 poisoned = {0x7fc1};  // a NaN

/// The same numbers as bf16 and, widened, as f32.
struct Twin {
  std::vector<bf16> half;
  std::vector<float> wide;

  Twin(std::int64_t n, std::uint64_t seed, double deviation = 1) {
    for (const float x : normal(n, seed, deviation))
      half.push_back(to_bf16(x)), wide.push_back(to_float(half.back()));
  }
  explicit Twin(std::int64_t n) : half(static_cast<std::size_t>(n), poisoned), wide(poison(n)) {}

  Tensor h(std::initializer_list<std::int64_t> shape) {
    return {half.data(), Type::bf16, std::span(shape.begin(), shape.size())};
  }
  Tensor f(std::initializer_list<std::int64_t> shape) { return {wide.data(), shape}; }

  /// Whether each bf16 number is the f32 number rounded.
  bool rounded() const {
    for (std::size_t i = 0; i < half.size(); ++i)
      if (half[i].bits != to_bf16(wide[i]).bits) return false;
    return true;
  }
  /// As attention has it: by AMX its products take bf16 weights and gradients of scores (see amx_test.cpp).
  bool rounded_weights() const {
    if (isa() != Isa::amx) return rounded();
    std::vector<float> widened;
    for (const bf16 x : half) widened.push_back(to_float(x));
    return relative_error(widened, wide) < 9 * 0x1p-9;
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr std::int64_t widths[] = {1, 17, 64, 513};

}  // namespace

TEST_CASE("conversion: every bf16 number survives, every float is rounded to nearest even", "[bf16]") {
  std::vector<bf16> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide = poison(65536);
  convert({{wide.data(), {1, 65536}}, 0},
          Tensor(all.data(), Type::bf16, std::array<std::int64_t, 2>{1, 65536}));
  int wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    wrong += std::memcmp(&wide[i], std::array{to_float(all[i])}.data(), 4) != 0;
  CHECK(wrong == 0);

  // Patterns around every rounding boundary: ties, just below, just above, in all exponents and both signs.
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper < 65536; upper += 7)
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      floats.push_back(std::bit_cast<float>(upper << 16 | lower));
  const auto n = static_cast<std::int64_t>(floats.size());
  std::vector<bf16> half(floats.size(), poisoned);
  convert({Tensor(half.data(), Type::bf16, std::array<std::int64_t, 2>{1, n}), 0}, {floats.data(), {1, n}});
  for (std::size_t i = 0; i < floats.size(); ++i) wrong += half[i].bits != to_bf16(floats[i]).bits;
  CHECK(wrong == 0);
}

TEST_CASE("conversion of strided rows, beta 0 on NaN and beta 1", "[bf16]") {
  for (const std::int64_t cols : widths) {
    Twin from(3 * (cols + 5), 1), to(3 * cols, 2), fresh(3 * cols);
    Tensor x = from.h({3, cols + 5}).columns(2, cols), x32 = from.f({3, cols + 5}).columns(2, cols);
    convert({fresh.h({3, cols}), 0}, x);
    convert({fresh.f({3, cols}), 0}, x32);
    CHECK(fresh.rounded());
    convert({to.h({3, cols}), 1}, x);
    convert({to.f({3, cols}), 1}, x32);
    CHECK(to.rounded());
  }
}

TEST_CASE("gemm takes bf16 on either side and writes either type", "[bf16]") {
  // Products of two bf16 numbers are exact in f32; the sums differ from the reference's by their order, at
  // most 2 K 2^-24 of the sum of sizes, far less in practice; a bf16 result then rounds by 2^-9 of itself.
  const struct { std::int64_t M, N, K; } sizes[] = {{1, 1, 1}, {1, 64, 513}, {17, 33, 64}, {64, 17, 130}};
  for (const auto& s : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const int f32_side : {0, 1, 2})  // none, a, b
          for (const Type type : {Type::f32, Type::bf16})
            for (const float beta : {0.0F, 1.0F}) {
              Twin a(s.M * s.K, 1), b(s.K * s.N, 2);
              Twin c = beta == 0 ? Twin(s.M * s.N) : Twin(s.M * s.N, 3), wanted = c;
              const auto mat = [](const Tensor& t, bool transposed) {
                return transposed ? t.mat().t() : t.mat();
              };
              const auto left = [&](bool half) {
                const auto shape = ta ? std::array{s.K, s.M} : std::array{s.M, s.K};
                return mat(half ? a.h({shape[0], shape[1]}) : a.f({shape[0], shape[1]}), ta);
              };
              const auto right = [&](bool half) {
                const auto shape = tb ? std::array{s.N, s.K} : std::array{s.K, s.N};
                return mat(half ? b.h({shape[0], shape[1]}) : b.f({shape[0], shape[1]}), tb);
              };
              const std::vector<float> bias = normal(s.N, 5);
              const GemmOptions options{beta, bias.data()};
              const Tensor out = type == Type::bf16 ? c.h({s.M, s.N}) : c.f({s.M, s.N});
              gemm(out.mat(), left(f32_side != 1), right(f32_side != 2), options);
              gemm_reference(wanted.f({s.M, s.N}).mat(), left(false), right(false), options);
              std::vector<float> found = c.wide;
              if (type == Type::bf16)
                for (std::size_t i = 0; i < found.size(); ++i) found[i] = to_float(c.half[i]);
              CAPTURE(s.M, s.N, s.K, ta, tb, f32_side, static_cast<int>(type), beta);
              CHECK(relative_error(found, wanted.wide) < (type == Type::bf16 ? 0x1p-8 : 1e-6));
            }
}

TEST_CASE("norm: bf16 branch and normalised rows", "[bf16]") {
  constexpr std::int64_t R = 5;
  const auto cases = {std::tuple(true, NormKind::layernorm), std::tuple(false, NormKind::layernorm),
                      std::tuple(true, NormKind::rmsnorm)};
  for (const std::int64_t C : widths)
    for (const auto& [half_h, kind] : cases) {
      const bool layer = kind == NormKind::layernorm;
      const Dropout dropout(RandomStream(1, 2, 3), 0.25, 0);
      std::vector<float> stream = normal(R * C, 1), gain = normal(C, 3), biases = normal(C, 4);
      const float* bias = layer ? biases.data() : nullptr;
      Twin branch(R * C, 2), h(R * C);
      std::vector<float> x = poison(R * C), x32 = x, mean = poison(R), rstd = poison(R), mean32 = mean,
                         rstd32 = rstd;
      float *means = layer ? mean.data() : nullptr, *means32 = layer ? mean32.data() : nullptr;
      residual_norm_forward({x.data(), {R, C}}, half_h ? h.h({R, C}) : h.f({R, C}), means, rstd.data(),
                            {stream.data(), {R, C}}, branch.h({R, C}), gain.data(), bias, 1e-5F, dropout,
                            kind);
      std::vector<float> plain = poison(R * C);
      residual_norm_forward({x32.data(), {R, C}}, {plain.data(), {R, C}}, means32, rstd32.data(),
                            {stream.data(), {R, C}}, branch.f({R, C}), gain.data(), bias, 1e-5F, dropout,
                            kind);
      CAPTURE(C, half_h, layer);
      CHECK(same(x, x32));
      CHECK(same(mean, mean32));
      if (half_h) {
        h.wide = plain;
        CHECK(h.rounded());
      } else {
        CHECK(same(h.wide, plain));
      }

      Twin dh(R * C, 6), dbranch(R * C);
      std::vector<float> dx = normal(R * C, 7), ds = poison(R * C), ds32 = ds, dg = poison(C), dg32 = dg,
                         db = poison(C), db32 = db, scratch(residual_norm_backward_scratch(R, C));
      residual_norm_backward({{ds.data(), {R, C}}, 0}, {dbranch.h({R, C}), 0}, {{dg.data(), {C}}, 0},
                             {{db.data(), {C}}, 0}, {dx.data(), {R, C}}, half_h ? dh.h({R, C}) : dh.f({R, C}),
                             {x.data(), {R, C}}, means, rstd.data(), gain.data(), dropout, scratch, kind);
      residual_norm_backward({{ds32.data(), {R, C}}, 0}, {dbranch.f({R, C}), 0}, {{dg32.data(), {C}}, 0},
                             {{db32.data(), {C}}, 0}, {dx.data(), {R, C}}, dh.f({R, C}), {x.data(), {R, C}},
                             means, rstd.data(), gain.data(), dropout, scratch, kind);
      CHECK(same(ds, ds32));
      CHECK(same(dg, dg32));
      CHECK(same(db, db32));
      CHECK(dbranch.rounded());
    }
}

TEST_CASE("activations and column sums of bf16", "[bf16]") {
  for (const std::int64_t C : widths)
    for (const Activation kind :
         {Activation::gelu, Activation::gelu_erf, Activation::relu, Activation::relu2, Activation::silu}) {
      Twin pre(3 * C, 1, 3), y(3 * C), again(3 * C), dy(3 * C, 2), dpre(3 * C);
      activation_forward(y.h({3, C}), pre.h({3, C}), kind);
      activation_forward(y.f({3, C}), pre.f({3, C}), kind);
      activation_backward(dpre.h({3, C}), again.h({3, C}), dy.h({3, C}), pre.h({3, C}), kind);
      activation_backward(dpre.f({3, C}), again.f({3, C}), dy.f({3, C}), pre.f({3, C}), kind);
      CAPTURE(C, static_cast<int>(kind));
      CHECK(y.rounded());
      CHECK(again.rounded());
      CHECK(dpre.rounded());
      std::vector<float> sum = poison(C), sum32 = sum, scratch(column_sum_scratch(3, C));
      column_sum({{sum.data(), {C}}, 0}, dy.h({3, C}), scratch);
      column_sum({{sum32.data(), {C}}, 0}, dy.f({3, C}), scratch);
      CHECK(same(sum, sum32));
    }
}

TEST_CASE("gated activations of bf16", "[bf16]") {
  for (const std::int64_t F : widths)
    for (const Activation kind : {Activation::swiglu, Activation::geglu}) {
      Twin pre(3 * 2 * F, 1, 3), y(3 * F), again(3 * F), dy(3 * F, 2), dpre(3 * 2 * F);
      activation_forward(y.h({3, F}), pre.h({3, 2 * F}), kind);
      activation_forward(y.f({3, F}), pre.f({3, 2 * F}), kind);
      activation_backward(dpre.h({3, 2 * F}), again.h({3, F}), dy.h({3, F}), pre.h({3, 2 * F}), kind);
      activation_backward(dpre.f({3, 2 * F}), again.f({3, F}), dy.f({3, F}), pre.f({3, 2 * F}), kind);
      CAPTURE(F, static_cast<int>(kind));
      CHECK(y.rounded());
      CHECK(again.rounded());
      CHECK(dpre.rounded());
    }
}

TEST_CASE("turned and normalised heads of bf16", "[bf16]") {
  const std::int64_t T = 3, H = 2;
  for (const std::int64_t D : {2, 20, 64})
    for (const bool norm : {false, true}) {
      Twin x(T * H * D, 1), y(T * H * D), dy(T * H * D, 2), dx(T * H * D);
      std::vector<float> table(static_cast<std::size_t>(T * D)), gains = normal(D, 3), stds = poison(T * H);
      const Tensor turns(table.data(), {T, D});
      rotary_table(turns, 5, 10000);
      const float* gain = norm ? gains.data() : nullptr;
      float* rstd = norm ? stds.data() : nullptr;
      const auto shape = {std::int64_t{1}, T, H * D};
      rotary_forward(y.h(shape), x.h(shape), turns, gain, rstd, 1e-5F, H);
      rotary_forward(y.f(shape), x.f(shape), turns, gain, rstd, 1e-5F, H);
      CAPTURE(D, norm);
      CHECK(y.rounded());
      std::vector<float> dgain = poison(D), dgain32 = dgain, scratch(rotary_backward_scratch(T, H * D, D));
      const auto sink = [&](std::vector<float>& to) { return norm ? Sink{{to.data(), {D}}, 0} : Sink(); };
      rotary_backward({dx.h(shape), 0}, sink(dgain), dy.h(shape), x.h(shape), turns, gain, rstd, H, scratch);
      rotary_backward({dx.f(shape), 0}, sink(dgain32), dy.f(shape), x.f(shape), turns, gain, rstd, H,
                      scratch);
      CHECK(dx.rounded());
      CHECK(same(dgain, dgain32));
    }
}

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

TEST_CASE("the loss's gradient as bf16 lies in the first half of each row", "[bf16]") {
  for (const std::int64_t V : widths) {
    const std::int64_t R = 4;
    std::vector<float> logits = normal(R * V, 1), logits32 = logits, scratch(cross_entropy_rows_scratch(R));
    const std::int32_t targets[] = {0, static_cast<std::int32_t>(V - 1), ignored_target,
                                    static_cast<std::int32_t>(V / 2)};
    const RowLoss a = cross_entropy_rows({logits.data(), {R, V}}, targets, 0.1F, 0.5F, scratch, Type::bf16);
    const RowLoss b = cross_entropy_rows({logits32.data(), {R, V}}, targets, 0.1F, 0.5F, scratch);
    CHECK(a.nll == b.nll);
    const Mat gradient = gradient_of({logits.data(), {R, V}}, Type::bf16);
    int wrong = 0;
    for (std::int64_t r = 0; r < R; ++r)
      for (std::int64_t j = 0; j < V; ++j)
        wrong += static_cast<const bf16*>(gradient.data)[r * gradient.row_stride + j].bits !=
                 to_bf16(logits32[static_cast<std::size_t>(r * V + j)]).bits;
    CHECK(wrong == 0);
  }
}

TEST_CASE("AdamW keeps the shadow: its weights, rounded", "[bf16]") {
  for (const std::int64_t n : widths) {
    std::vector<float> w = normal(n, 1), g = normal(n, 2), m(w.size()), v(w.size());
    std::vector<bf16> shadow(w.size(), poisoned);
    AdamW adamw;
    adamw.learning_rate = 0.1F;
    adamw_update(w.data(), g.data(), m.data(), v.data(), n, adamw, shadow.data());
    int wrong = 0;
    for (std::size_t i = 0; i < w.size(); ++i) wrong += shadow[i].bits != to_bf16(w[i]).bits;
    CHECK(wrong == 0);
  }
}
