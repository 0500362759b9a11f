// The attention of level amx with its registers in memory (see src/kernels/level/amx.hpp): all but the
// instructions themselves, on any processor of level v3.
#include <array>

#include "kernels/level.hpp"
#include "quern/base/bf16.hpp"
#include "quern/base/cpu.hpp"
#include "quern/kernels/attention.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

#if defined(__x86_64__)

namespace quern::kernels::emulated {
QUERN_LEVEL_ATTENTION_KERNELS(QUERN_DECLARE)
}

using namespace quern;
using namespace quern::reference;

namespace {

/// Numbers that bf16 holds, as such and as floats.
struct Both {
  std::vector<float> wide;
  std::vector<bf16> half;

  explicit Both(std::vector<float> x) : wide(std::move(x)), half(wide.size()) {
    for (std::size_t i = 0; i < wide.size(); ++i) {
      half[i] = to_bf16(wide[i]);
      wide[i] = to_float(half[i]);
    }
  }
  std::vector<float> widened() const {
    std::vector<float> out(half.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_float(half[i]);
    return out;
  }
};

struct Case {
  std::int64_t T, S, H, D;  // H query heads that share one key head
  bool causal = true;
  std::int64_t window = 0, globals = 0;
  double rate = 0;
  bool alibi = false, packed = false;
  std::int32_t length = -1;  // keys that are there; -1: all
};

// A weight and a score's gradient, rounded to bf16, are off by at most 2^-9 of themselves, and so is each sum
// of them by 2^-9 of its terms' magnitudes; these sums cancel to a quarter or so. Results round once more.
constexpr double tolerance = 4 * 0x1p-9 + 0x1p-9;

/// Every other row of a wider matrix, as a packed projection's columns lie.
constexpr std::int64_t spread = 2;

}  // namespace

TEST_CASE("attention by AMX's tiles is attention in floats, but for bf16's rounding", "[attention]") {
  if (detected_isa() < Isa::v3) {
    WARN("compiled for level v3: not tried");
    return;
  }
  const Case cases[] = {
      {64, 64, 1, 64},
      {1, 1, 1, 16},
      {2, 70, 1, 20},
      {63, 63, 1, 64, false},
      {65, 130, 2, 64},
      {127, 127, 1, 80},
      {130, 513, 1, 128},
      {70, 70, 1, 1},
      {70, 90, 1, 256, false, 0, 0, 0, false, false, 41},
      {100, 100, 3, 33, true, 0, 0, 0.3},
      {200, 200, 1, 64, true, 50, 0, 0, true},
      {300, 300, 2, 32, true, 20, 5, 0.2},
      {150, 150, 1, 32, false, 17, 9},
      {140, 140, 1, 48, true, 0, 0, 0, true, true},
      {40, 40, 1, 64, false, 0, 0, 0, false, false, 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.T, c.S, c.H, c.D, c.causal, c.window, c.globals, c.rate, c.length);
    const std::int64_t q_size = c.T * c.H * c.D, k_size = c.S * c.D * spread;
    Both q(normal(q_size, 1)), k(normal(k_size, 2)), v(normal(k_size, 3)), dout(normal(q_size, 4));
    for (std::int64_t s = c.length; c.length >= 0 && s < c.S; ++s)  // what nobody sees may be anything
      k.half[std::size_t(s * c.D * spread)] = v.half[std::size_t(s * c.D * spread)] = bf16{0x7fc0};

    AttentionOptions options{1 / std::sqrt(float(c.D)), {}, nullptr, {}};
    options.mask.causal = c.causal;
    options.mask.offset = c.causal ? c.S - c.T : 0;
    options.mask.window = c.window;
    options.mask.globals = c.globals;
    const auto slopes = alibi_slopes(c.H);
    if (c.alibi) options.slopes = slopes.data();
    if (c.length >= 0) options.mask.lengths = &c.length;
    std::vector<std::int32_t> starts;
    for (std::int32_t t = 0; c.packed && t < c.T; ++t) starts.push_back(t / 37 * 37);
    if (c.packed) options.mask.starts = starts.data(), options.mask.queries = c.T;
    if (c.rate > 0) options.dropout = Dropout(RandomStream(1, 2, 3), c.rate, 0);

    const auto shape_q = {std::int64_t{1}, c.T, c.H, c.D};
    const auto keys = [&](std::vector<float>& x) {
      Tensor t(x.data(), {1, c.S, 1, c.D});
      t.stride[0] *= spread, t.stride[1] *= spread;
      return t;
    };
    std::vector<float> out(q.wide.size()), lse(std::size_t(c.H * c.T));
    attention_forward({out.data(), shape_q}, lse.data(), {q.wide.data(), shape_q}, keys(k.wide), keys(v.wide),
                      options);
    std::vector<float> dq = out, dk(k.wide.size()), dv = dk;
    std::vector<float> scratch(attention_backward_scratch(1, c.T, c.S, 1, c.D));
    attention_backward({{dq.data(), shape_q}, 0}, {keys(dk), 0}, {keys(dv), 0}, {dout.wide.data(), shape_q},
                       {out.data(), shape_q}, lse.data(), {q.wide.data(), shape_q}, keys(k.wide),
                       keys(v.wide), options, scratch);

    Both out2(poison(q_size)), dq2 = out2, dk2(std::vector<float>(k.wide.size())), dv2 = dk2;
    std::vector<float> lse2 = poison(c.H * c.T);
    std::vector<float> scratch2 = poison(kernels::attention_head_scratch(c.S, c.D));
    const auto head_of = [&](std::int64_t h) {
      kernels::AttentionHead head{};
      head.q = q.half.data() + h * c.D, head.k = k.half.data(), head.v = v.half.data();
      head.half = true;
      head.q_stride = c.H * c.D, head.k_stride = head.v_stride = c.D * spread;
      head.queries = c.T, head.keys = c.S, head.width = c.D;
      head.visible = c.length >= 0 ? c.length : c.S;
      head.causal = c.causal;
      head.offset = options.mask.offset, head.window = c.window, head.globals = c.globals;
      head.starts = options.mask.starts;
      head.scale = options.scale;
      head.group = {1, 0, 0, 0, c.alibi ? slopes.data() + h : nullptr};
      const Dropout& d = options.dropout;
      head.dropout = {
          {d.stream.key[0], d.stream.key[1]}, d.stream.step, std::uint64_t(h * c.T), d.threshold, d.scale};
      return head;
    };
    const std::int64_t row = c.H * c.D;
    for (std::int64_t h = 0; h < c.H; ++h)
      for (std::int64_t t = 0; t < c.T; t += kernels::attention_tile)
        kernels::emulated::attention_forward_tile(head_of(h),
                                                  {out2.half.data() + h * c.D, row, lse2.data() + h * c.T}, t,
                                                  std::min(c.T, t + kernels::attention_tile));
    for (std::int64_t h = 0; h < c.H; ++h) {
      const auto sink = [](Both& x, std::int64_t first, std::int64_t stride) {
        return kernels::AttentionSink{x.half.data() + first, stride, 0};
      };
      kernels::emulated::attention_backward_head(
          head_of(h),
          {dout.half.data() + h * c.D, out2.half.data() + h * c.D, lse2.data() + h * c.T, row, row,
           sink(dq2, h * c.D, row), sink(dk2, 0, c.D * spread), sink(dv2, 0, c.D * spread), h == 0,
           h == c.H - 1, nullptr},
          scratch2.data());
    }
    for (std::size_t i = 0; i < lse.size(); ++i)  // sums of D products in another order
      CHECK((lse[i] == lse2[i] || std::abs(lse[i] - lse2[i]) < 1e-5));
    CHECK(relative_error(out2.widened(), out) < tolerance);
    CHECK(relative_error(dq2.widened(), dq) < tolerance);
    CHECK(relative_error(dk2.widened(), dk) < tolerance);
    CHECK(relative_error(dv2.widened(), dv) < tolerance);
  }
}

#endif
