#include "quern/kernels/linear_attention.hpp"

#include <omp.h>

#include <algorithm>

#include "attention_views.hpp"
#include "level.hpp"
#include "quern/base/parallel.hpp"

namespace quern {
namespace {

using kernels::check_heads;
using kernels::check_view;
using kernels::head_of;
using kernels::LinearAttentionGradient;
using kernels::LinearAttentionHead;
using kernels::LinearAttentionOutput;
using kernels::sink_of;
using kernels::workers;

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const LinearAttentionOptions& options) {
  check_heads(q, k, v, options.lengths);
  QUERN_CHECK(!options.causal || q.dim[1] == k.dim[1], q.dim[1], k.dim[1]);
  QUERN_CHECK((options.directions != nullptr) == (options.n_features > 0), options.n_features);
}

std::int64_t padded(std::int64_t D) { return (D + 15) / 16 * 16; }

LinearAttentionHead make_head(const Tensor& q, const Tensor& k, const Tensor& v,
                              const LinearAttentionOptions& options, std::int64_t b, std::int64_t key_head) {
  const std::int64_t D = q.dim[3];
  LinearAttentionHead head;
  head.group = q.dim[2] / k.dim[2];
  head.q = head_of(q, b, key_head * head.group), head.k = head_of(k, b, key_head),
  head.v = head_of(v, b, key_head);
  head.half = q.type == Type::bf16;
  head.q_stride = q.stride[1], head.q_head = q.stride[2];
  head.k_stride = k.stride[1], head.v_stride = v.stride[1];
  head.queries = q.dim[1], head.keys = k.dim[1], head.width = D;
  head.visible = options.lengths != nullptr ? options.lengths[b] : k.dim[1];
  head.causal = options.causal;
  head.directions = options.directions;
  head.features = options.directions != nullptr ? options.n_features : D;
  head.padded = padded(D);
  return head;
}

std::int64_t feature_count(const LinearAttentionOptions& options, std::int64_t D) {
  return options.directions != nullptr ? options.n_features : D;
}

std::int64_t scratch_of_head(const Tensor& q, const Tensor& k, const LinearAttentionOptions& options) {
  return kernels::linear_scratch(q.dim[2] / k.dim[2] * q.dim[1], k.dim[1], feature_count(options, q.dim[3]),
                                 padded(q.dim[3]));
}

/// f(b, key head, scratch of the thread) for every head of keys.
template <class F>
void for_each_head(const Tensor& q, const Tensor& k, const LinearAttentionOptions& options,
                   std::span<float> scratch, const F& f) {
  const std::int64_t B = k.dim[0], Hkv = k.dim[2], each = scratch_of_head(q, k, options);
  QUERN_CHECK(scratch.size() >= linear_attention_scratch(q, k, options), scratch.size(), each, B, Hkv);
  const std::int64_t work =
      q.dim[2] / Hkv * (q.dim[1] + k.dim[1]) * feature_count(options, q.dim[3]) * q.dim[3];
  const std::int64_t grain = 1 + 100'000 / std::max<std::int64_t>(work, 1);
  parallel_for(B * Hkv, grain, [&](std::int64_t begin, std::int64_t end) {
    QUERN_CHECK(omp_get_thread_num() < workers(B, Hkv), omp_get_thread_num());
    for (std::int64_t i = begin; i < end; ++i)
      f(i / Hkv, i % Hkv, scratch.data() + omp_get_thread_num() * each);
  });
}

}  // namespace

std::int64_t linear_attention_state_size(std::int64_t M, std::int64_t D) {
  return kernels::linear_state_size(M, padded(D));
}

std::size_t linear_attention_scratch(const Tensor& q, const Tensor& k,
                                     const LinearAttentionOptions& options) {
  return static_cast<std::size_t>(workers(k.dim[0], k.dim[2]) * scratch_of_head(q, k, options));
}

void linear_attention_forward(Tensor out, float* den, Tensor q, Tensor k, Tensor v,
                              const LinearAttentionOptions& options, const LinearAttentionState& state,
                              std::span<float> scratch) {
  check_inputs(q, k, v, options);
  check_view(out, q);
  QUERN_CHECK(state.sums == nullptr || (options.causal && options.lengths == nullptr));
  const std::int64_t T = q.dim[1], H = q.dim[2], Hkv = k.dim[2], D = q.dim[3];
  const std::int64_t each = linear_attention_state_size(feature_count(options, D), D);
  for_each_head(q, k, options, scratch, [&](std::int64_t b, std::int64_t key_head, float* mine) {
    const std::int64_t h = key_head * (H / Hkv);
    const LinearAttentionOutput to = {
        head_of(out, b, h),
        out.stride[1],
        out.stride[2],
        den + (b * H + h) * T,
        state.sums != nullptr ? state.sums + (b * Hkv + key_head) * each : nullptr,
        state.fresh};
    kernels::level().linear_attention_head(make_head(q, k, v, options, b, key_head), to, mine);
  });
}

void linear_attention_backward(Sink dq, Sink dk, Sink dv, Tensor dout, const float* den, Tensor q, Tensor k,
                               Tensor v, const LinearAttentionOptions& options, std::span<float> scratch) {
  check_inputs(q, k, v, options);
  check_view(dout, q);
  if (dq) check_view(dq.to, q);
  if (dk) check_view(dk.to, k);
  if (dv) check_view(dv.to, v);
  const std::int64_t T = q.dim[1], H = q.dim[2], Hkv = k.dim[2];
  for_each_head(q, k, options, scratch, [&](std::int64_t b, std::int64_t key_head, float* mine) {
    const std::int64_t h = key_head * (H / Hkv);
    const LinearAttentionGradient gradient = {
        head_of(dout, b, h), dout.stride[1],           dout.stride[2],           den + (b * H + h) * T,
        sink_of(dq, b, h),   sink_of(dk, b, key_head), sink_of(dv, b, key_head), dq ? dq.to.stride[2] : 0};
    kernels::level().linear_attention_backward_head(make_head(q, k, v, options, b, key_head), gradient, mine);
  });
}

}  // namespace quern
