// The rows of attention in quern bench --kernels.
#include "quern/kernels/attention.hpp"

#include "bench_kernels.hpp"
#include "quern/kernels/linear_attention.hpp"

namespace quern::cli {

AttentionSeconds::AttentionSeconds(Bench& b, AttentionOptions options) {
  constexpr auto B = Bench::B, T = Bench::T, H = Bench::H, C = Bench::C;
  const Tensor qkv = b.operand({B, T, 3 * C}), dqkv = b.operand({B, T, 3 * C}), out = b.operand({B, T, C}),
               dout = b.operand({B, T, C});
  float* lse = b.buffer(B * H * T);
  const auto part = [](const Tensor& t, int i) { return t.columns(i * C, C).split_last(H); };
  options.scale = 0.125F;
  const std::span<float> scratch = b.scratch(attention_backward_scratch(B, T, T, H, C / H));
  forward = seconds(
      [&] { attention_forward(out.split_last(H), lse, part(qkv, 0), part(qkv, 1), part(qkv, 2), options); });
  backward = seconds([&] {
    attention_backward({part(dqkv, 0), 0}, {part(dqkv, 1), 0}, {part(dqkv, 2), 0}, dout.split_last(H),
                       out.split_last(H), lse, part(qkv, 0), part(qkv, 1), part(qkv, 2), options, scratch);
  });
}

namespace {

void causal_rows(Bench& b) {
  const std::vector<float> slopes = alibi_slopes(Bench::H);
  const auto rows = [&b](const std::string& name, const AttentionOptions& options) {
    const AttentionSeconds attention(b, options);
    b.row("attention_forward" + name, attention.forward, AttentionSeconds::flops, true);
    b.row("attention_backward" + name, attention.backward, 2.5 * AttentionSeconds::flops, true);
  };
  AttentionOptions alibi, dropout;
  alibi.slopes = slopes.data();
  dropout.dropout = Dropout(RandomStream(1, 2, 3), 0.2, 0);
  rows(", causal", {});
  rows(", ALiBi", alibi);
  rows(", dropout", dropout);
}

/// Scores by a tanh for each number of each pair: they count as products do.
void additive_rows(Bench& b) {
  constexpr std::int64_t B = 12, T = 64, H = 4, D = 32;
  const Tensor q = b.operand({B, T, H, D}), k = b.operand({B, T, H, D}), v = b.operand({B, T, H, D}),
               out = b.operand({B, T, H, D}), dq = b.operand({B, T, H, D}), dk = b.operand({B, T, H, D}),
               dv = b.operand({B, T, H, D}), dw = b.tensor({H, D});
  float* lse = b.buffer(B * H * T);
  AttentionOptions options;
  options.additive = b.buffer(H * D);
  const std::span<float> scratch = b.scratch(attention_backward_scratch(B, T, T, H, D, H));
  const double causal = 2.0 * B * T * (T + 1) * H * D;
  b.flops("attention_forward, additive", causal, [&] { attention_forward(out, lse, q, k, v, options); });
  b.flops("attention_backward, additive", 2.5 * causal, [&] {
    attention_backward({dq, 0}, {dk, 0}, {dv, 0}, q, out, lse, q, k, v, options, scratch, {dw, 0});
  });
}

/// One sequence that grows: the rate stays, so the time is linear in T. Counted are the products with the
/// running sums.
void linear_attention_rows(Bench& b) {
  constexpr std::int64_t longest = 65536, H = 4, D = 64, M = 256;
  const Tensor q = b.operand({1, longest, H, D}), k = b.operand({1, longest, H, D}),
               v = b.operand({1, longest, H, D}), out = b.operand({1, longest, H, D}),
               dq = b.operand({1, longest, H, D}), dk = b.operand({1, longest, H, D}),
               dv = b.operand({1, longest, H, D});
  float *den = b.buffer(H * longest), *directions = b.buffer(M * D);
  const std::span<float> scratch = b.scratch(linear_attention_scratch(q, k, {true, nullptr, directions, M}));
  const auto rows = [&](const std::string& map, std::int64_t T, const LinearAttentionOptions& options) {
    const auto cut = [T](Tensor x) {
      x.dim[1] = T;
      return x;
    };
    const std::string name = ", " + map + ", T " + std::to_string(T / 1024) + "k";
    const double products = 4.0 * static_cast<double>(T * H * D * (options.n_features > 0 ? M : D));
    b.flops("linear_attention_forward" + name, products,
            [&] { linear_attention_forward(cut(out), den, cut(q), cut(k), cut(v), options, {}, scratch); });
    b.flops("linear_attention_backward" + name, 2.5 * products, [&] {
      linear_attention_backward({cut(dq), 0}, {cut(dk), 0}, {cut(dv), 0}, cut(q), den, cut(q), cut(k), cut(v),
                                options, scratch);
    });
  };
  for (std::int64_t T = 1024; T <= longest; T *= 2) rows("elu", T, {});
  rows("whole", 4096, {.causal = false});
  rows("favor", 4096, {true, nullptr, directions, M});
}

/// One token of each of 64 sequences: the running sums are read and written.
void linear_decoding_rows(Bench& b) {
  constexpr std::int64_t B = 64, H = 4, D = 64;
  const Tensor q = b.operand({B, 1, H, D}), k = b.operand({B, 1, H, D}), v = b.operand({B, 1, H, D}),
               out = b.operand({B, 1, H, D}), sums = b.tensor({B, H, linear_attention_state_size(D, D)});
  float* den = b.buffer(B * H);
  const std::span<float> scratch = b.scratch(linear_attention_scratch(q, k, {}));
  std::fill_n(sums.f32(), sums.size(), 1.0F);
  b.memory("linear_attention_forward, one query", {q, k, v, out, sums, sums}, [&] {
    linear_attention_forward(out, den, q, k, v, {}, {sums.f32(), false}, scratch);
  });
}

/// The pairs of a query and a key that it sees, of T of both.
double visible_pairs(const AttentionMask& mask, std::int64_t T) {
  std::int64_t pairs = 0;
  for (std::int64_t t = 0; t < T; ++t) {
    const AttentionMask::Span span = mask.span(0, t, T);
    pairs += span.end - span.begin + std::min(mask.globals, span.begin);
  }
  return static_cast<double>(pairs);
}

/// One query, as decoding has it, over one long sequence: keys and values are read once.
void one_query_rows(Bench& b) {
  constexpr std::int64_t T = 16384, H = 3, D = 64;
  AttentionOptions options;
  options.scale = 0.125F, options.mask.offset = T - 1;
  const Tensor q = b.operand({1, 1, H, D}), out = b.operand({1, 1, H, D});
  float* lse = b.buffer(H);
  for (const std::int64_t heads : {H, H / 3}) {
    const Tensor k = b.operand({1, T, heads, D}), v = b.operand({1, T, heads, D});
    b.memory("attention_forward, one query, " + std::to_string(heads) + (heads == 1 ? " head" : " heads"),
             {k, v}, [&] { attention_forward(out, lse, q, k, v, options); });
  }
}

/// One long sequence of few heads: what a window saves.
void long_attention_rows(Bench& b) {
  constexpr std::int64_t T = 16384, H = 3, D = 64;
  const Tensor q = b.operand({1, T, H, D}), k = b.operand({1, T, H, D}), v = b.operand({1, T, H, D}),
               out = b.operand({1, T, H, D}), dq = b.operand({1, T, H, D}), dk = b.operand({1, T, H, D}),
               dv = b.operand({1, T, H, D});
  float* lse = b.buffer(H * T);
  const std::span<float> scratch = b.scratch(attention_backward_scratch(1, T, T, H, D));
  AttentionOptions options;
  options.scale = 0.125F;
  const auto rows = [&](const std::string& name) {
    const double product = 2 * visible_pairs(options.mask, T) * H * D;
    b.flops("attention_forward" + name, 2 * product, [&] { attention_forward(out, lse, q, k, v, options); });
    b.flops("attention_backward" + name, 5 * product, [&] {
      attention_backward({dq, 0}, {dk, 0}, {dv, 0}, q, out, lse, q, k, v, options, scratch);
    });
  };
  rows(", T 16384");
  options.mask.window = 256;
  rows(", T 16384, window 256");
  options.mask.globals = 16;
  rows(", window 256, 16 global");
}

/// By the formulas in double, for looking.
void weights_row(Bench& b) {
  constexpr std::int64_t T = Bench::T, D = 64;
  const Tensor q = b.operand({1, T, 1, D}), k = b.operand({1, T, 1, D});
  const std::span<float> weights = b.scratch(T * T);
  b.flops("attention_weights, one head", static_cast<double>(T * (T + 1) * D),
          [&] { attention_weights(weights, q, k, AttentionOptions(), 0, 0); });
}

}  // namespace

void attention_rows(Bench& b) {
  causal_rows(b);
  long_attention_rows(b);
  one_query_rows(b);
  additive_rows(b);
  weights_row(b);
  linear_attention_rows(b);
  linear_decoding_rows(b);
}

}  // namespace quern::cli
