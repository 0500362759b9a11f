#include "quern/kernels/attention.hpp"

#include <omp.h>

#include <bit>
#include <cmath>

#include "attention_views.hpp"
#include "level.hpp"
#include "quern/base/parallel.hpp"

namespace quern {
namespace {

using kernels::AttentionGradient;
using kernels::AttentionHead;
using kernels::AttentionOutput;
using kernels::check_heads;
using kernels::check_view;
using kernels::head_of;
using kernels::sink_of;
using kernels::workers;

static_assert(kernels::attention_max_width == max_head_width);

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const AttentionMask& mask = options.mask;
  QUERN_CHECK(options.additive == nullptr || options.scale == 1, options.scale);
  check_heads(q, k, v, mask.lengths);
  QUERN_CHECK(q.dim[3] >= 1 && q.dim[3] <= max_head_width, q.dim[3]);
  QUERN_CHECK(mask.offset >= 0 && mask.window >= 0 && mask.globals >= 0, mask.offset, mask.window,
              mask.globals);
  QUERN_CHECK(mask.window > 0 || mask.globals == 0, mask.globals);
  QUERN_CHECK(mask.starts == nullptr || (mask.offset == 0 && mask.globals == 0 && mask.queries == q.dim[1]),
              mask.offset, mask.globals, mask.queries, q.dim[1]);
}

/// Query head h of sequence b, and the keys that it reads.
AttentionHead make_head(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                        std::int64_t b, std::int64_t h) {
  const AttentionMask& mask = options.mask;
  const Dropout& drop = options.dropout;
  AttentionHead head;
  const std::int64_t key_head = h / (q.dim[2] / k.dim[2]);
  head.q = head_of(q, b, h), head.k = head_of(k, b, key_head), head.v = head_of(v, b, key_head);
  head.half = q.type == Type::bf16;
  head.q_stride = q.stride[1], head.k_stride = k.stride[1], head.v_stride = v.stride[1];
  head.queries = q.dim[1], head.keys = k.dim[1], head.width = q.dim[3];
  head.visible = mask.lengths != nullptr ? mask.lengths[b] : k.dim[1];
  head.causal = mask.causal;
  head.offset = mask.offset, head.window = mask.window, head.globals = mask.globals, head.gap = mask.gap;
  head.starts = mask.starts != nullptr ? mask.starts + b * mask.queries : nullptr;
  head.scale = options.scale;
  head.additive = options.additive != nullptr ? options.additive + h * q.dim[3] : nullptr;
  head.group = {1, 0, 0, 0, options.slopes != nullptr ? options.slopes + h : nullptr};
  const auto sequence = drop.first_row + static_cast<std::uint64_t>(b);
  const auto row = (sequence * static_cast<std::uint64_t>(q.dim[2]) + static_cast<std::uint64_t>(h)) *
                   static_cast<std::uint64_t>(q.dim[1]);
  head.dropout = {
      {drop.stream.key[0], drop.stream.key[1]}, drop.stream.step, row, drop.threshold, drop.scale};
  return head;
}

/// About how many of S keys a tile of queries reads.
std::int64_t seen_keys(const AttentionMask& mask, std::int64_t S) {
  return mask.window > 0 ? std::min(S, mask.globals + mask.window + kernels::attention_tile) : S;
}

/// attention_forward of few queries: the query heads that share a key head go together, as long as every
/// thread has some.
void few_queries(const Tensor& out, float* lse, const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  const std::int64_t B = q.dim[0], T = q.dim[1], H = q.dim[2], D = q.dim[3], S = k.dim[1];
  const std::int64_t shared = H / k.dim[2], tasks = B * k.dim[2];
  const std::int64_t parts = std::clamp<std::int64_t>((thread_count() + tasks - 1) / tasks, 1, shared);
  const std::int64_t together = (shared + parts - 1) / parts, per_key = (shared + together - 1) / together;
  const std::int64_t work = T * seen_keys(options.mask, S) * D * 2 * together;
  const std::int64_t grain = 1 + 100'000 / std::max<std::int64_t>(work, 1);
  parallel_for(tasks * per_key, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / (k.dim[2] * per_key), key_head = i / per_key % k.dim[2];
      const std::int64_t first = i % per_key * together, h = key_head * shared + first;
      kernels::AttentionHead head = make_head(q, k, v, options, b, h);
      head.group = {std::min(together, shared - first), q.stride[2], out.stride[2], T, head.group.slopes};
      const AttentionOutput to = {head_of(out, b, h), out.stride[1], lse + (b * H + h) * T};
      kernels::level().attention_forward_tile(head, to, 0, T);
    }
  });
}

/// to (H,D) = the sum over b of partial (B,H,D), in order.
void sum_over_sequences(const Sink& to, const float* partial, std::int64_t B) {
  const std::int64_t n = to.to.size();
  QUERN_CHECK(to.to.contiguous());
  for (std::int64_t i = 0; i < n; ++i) {
    float total = to.beta == 0 ? 0 : to.beta * to.to.f32()[i];
    for (std::int64_t b = 0; b < B; ++b) total += partial[b * n + i];
    to.to.f32()[i] = total;
  }
}

}  // namespace

std::vector<float> alibi_slopes(std::int64_t heads) {
  const std::int64_t power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [](std::int64_t i, std::int64_t n) {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(i + 1) / static_cast<double>(n)));
  };
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < power; ++h) slopes.push_back(slope(h, power));
  for (std::int64_t h = power; h < heads; ++h) slopes.push_back(slope(2 * (h - power), 2 * power));
  return slopes;
}

void attention_forward(Tensor out, float* lse, Tensor q, Tensor k, Tensor v,
                       const AttentionOptions& options) {
  check_inputs(q, k, v, options);
  check_view(out, q);
  const std::int64_t B = q.dim[0], T = q.dim[1], H = q.dim[2], D = q.dim[3], S = k.dim[1];
  if (T <= kernels::attention_few_queries && !options.dropout) return few_queries(out, lse, q, k, v, options);
  const std::int64_t tiles = (T + kernels::attention_tile - 1) / kernels::attention_tile;
  // A chunk is worth waking a thread for: some 100,000 multiplications.
  const std::int64_t work = std::min(T, kernels::attention_tile) * seen_keys(options.mask, S) * D * 2;
  const std::int64_t grain = 1 + 100'000 / std::max<std::int64_t>(work, 1);
  parallel_for(B * H * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tile = tiles - 1 - i / (B * H);  // causal: the long ones first
      const std::int64_t b = i % (B * H) / H, h = i % H, t = tile * kernels::attention_tile;
      const AttentionOutput to = {head_of(out, b, h), out.stride[1], lse + (b * H + h) * T};
      kernels::level().attention_forward_tile(make_head(q, k, v, options, b, h), to, t,
                                              std::min(T, t + kernels::attention_tile));
    }
  });
}

std::size_t attention_backward_scratch(std::int64_t B, std::int64_t /*T*/, std::int64_t S, std::int64_t H,
                                       std::int64_t D, std::int64_t additive_heads) {
  return static_cast<std::size_t>(workers(B, H) * kernels::attention_head_scratch(S, D) +
                                  B * additive_heads * D);
}

void attention_backward(Sink dq, Sink dk, Sink dv, Tensor dout, Tensor out, const float* lse, Tensor q,
                        Tensor k, Tensor v, const AttentionOptions& options, std::span<float> scratch,
                        Sink dadditive) {
  check_inputs(q, k, v, options);
  check_view(out, q);
  check_view(dout, q);
  if (dq) check_view(dq.to, q);
  if (dk) check_view(dk.to, k);
  if (dv) check_view(dv.to, v);
  const std::int64_t B = q.dim[0], T = q.dim[1], D = q.dim[3], S = k.dim[1];
  const std::int64_t H = q.dim[2], key_heads = k.dim[2], group = H / key_heads;
  QUERN_CHECK(scratch.size() >=
                  attention_backward_scratch(B, T, S, key_heads, D, options.additive != nullptr ? H : 0),
              scratch.size(), B, T, S, key_heads, D);
  const std::int64_t each = kernels::attention_head_scratch(S, D);
  float* partial = options.additive != nullptr ? scratch.data() + workers(B, key_heads) * each : nullptr;
  const std::int64_t grain =
      1 + 100'000 / std::max<std::int64_t>(group * T * seen_keys(options.mask, S) * D * 5, 1);
  parallel_for(B * key_heads, grain, [&](std::int64_t begin, std::int64_t end) {
    QUERN_CHECK(omp_get_thread_num() < workers(B, key_heads), omp_get_thread_num());
    float* mine = scratch.data() + omp_get_thread_num() * each;
    for (std::int64_t i = begin * group; i < end * group; ++i) {
      const std::int64_t b = i / H, h = i % H, key_head = h / group;
      const AttentionGradient gradient = {head_of(dout, b, h),
                                          head_of(out, b, h),
                                          lse + i * T,
                                          dout.stride[1],
                                          out.stride[1],
                                          sink_of(dq, b, h),
                                          sink_of(dk, b, key_head),
                                          sink_of(dv, b, key_head),
                                          h % group == 0,
                                          (h + 1) % group == 0,
                                          partial != nullptr ? partial + i * D : nullptr};
      kernels::level().attention_backward_head(make_head(q, k, v, options, b, h), gradient, mine);
    }
  });
  if (dadditive) sum_over_sequences(dadditive, partial, B);
}

}  // namespace quern
