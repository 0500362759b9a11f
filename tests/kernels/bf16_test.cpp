// What every kernel does with bf16: numbers are widened as they are read, computed in f32 like any others,
// and rounded as they are stored. So a bf16 kernel's result is exactly the f32 kernel's on the widened
// numbers, rounded.
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/twin.hpp"
#include "quern/base/cpu.hpp"
#include "quern/kernels/activation.hpp"
#include "quern/kernels/adamw.hpp"
#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/kernels/loss.hpp"
#include "quern/kernels/norm.hpp"
#include "quern/kernels/reduce.hpp"
#include "quern/kernels/rotary.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

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

TEST_CASE("gemm of bf16 columns that lie apart, as rows and as columns", "[bf16]") {
  // The tolerances are those above.
  for (const std::int64_t K : {1, 7, 256})
    for (const bool turned : {false, true}) {
      Twin a(K * 5, 1), b(K * 3, 2), c(turned ? 3 : 3 * K), wanted = c;
      const auto column = [&](const Tensor& t) {
        return turned ? t.columns(1, 1).mat().t() : t.columns(1, 1).mat();
      };
      if (turned) {  // (1,K) (K,3)
        gemm(c.h({1, 3}).mat(), column(a.h({K, 5})), b.h({K, 3}).mat());
        gemm_reference(wanted.f({1, 3}).mat(), column(a.f({K, 5})), b.f({K, 3}).mat(), {});
      } else {  // (K,1) (1,3)
        gemm(c.h({K, 3}).mat(), column(a.h({K, 5})), b.h({K, 3}).mat().row_range(0, 1));
        gemm_reference(wanted.f({K, 3}).mat(), column(a.f({K, 5})), b.f({K, 3}).mat().row_range(0, 1), {});
      }
      for (std::size_t i = 0; i < c.half.size(); ++i) c.wide[i] = to_float(c.half[i]);
      CAPTURE(K, turned);
      CHECK(relative_error(c.wide, wanted.wide) < 0x1p-8);
    }
}

TEST_CASE("what bf16 cannot hold becomes infinite, what is below its normal numbers keeps its digits",
          "[bf16]") {
  const float most = 0x1.fep127F, tiny = 0x1p-130F;  // the largest bf16, and one of the subnormal ones
  // Kernels read them, compute in f32 and round what they store.
  std::vector<bf16> x = {to_bf16(most), to_bf16(-most), to_bf16(tiny), to_bf16(-3 * tiny)}, y(4);
  const Tensor from(x.data(), Type::bf16, std::array<std::int64_t, 2>{1, 4}),
      to(y.data(), Type::bf16, std::array<std::int64_t, 2>{1, 4});
  const auto found = [&] {
    std::vector<float> wide;
    for (const bf16 v : y) wide.push_back(to_float(v));
    return wide;
  };
  const float inf = std::numeric_limits<float>::infinity();
  convert({to, 0}, from);
  CHECK(found() == std::vector<float>{most, -most, tiny, -3 * tiny});
  convert({to, 1}, from);  // twice each
  CHECK(found() == std::vector<float>{inf, -inf, 2 * tiny, -6 * tiny});
  activation_forward(to, from, Activation::relu);
  CHECK(found() == std::vector<float>{most, 0, tiny, 0});
  activation_forward(to, from, Activation::relu2);
  CHECK(found() == std::vector<float>{inf, 0, 0, 0});
  // A product: most * 2 overflows, tiny * 1 does not vanish (through f32 or by the processor's own bf16,
  // which takes subnormal operands for 0: Intel's manual on VDPBF16PS and TDPBF16PS).
  std::vector<bf16> two = {to_bf16(2)};
  const Tensor factor(two.data(), Type::bf16, std::array<std::int64_t, 2>{1, 1});
  gemm(to.mat(), factor.mat(), from.mat());
  CHECK(found()[0] == inf);
  CHECK(found()[1] == -inf);
  CHECK((found()[2] == 2 * tiny || (gemm_has_bf16() && found()[2] == 0)));
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
