// What the drivers of attention kernels share: the heads of (B,T,H,D) views, and what is asked of such views.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention_level.hpp"
#include "rows.hpp"

namespace quern::kernels {

/// Element (b, 0, h, 0) of a (B,T,H,D) view.
inline void* head_of(const Tensor& x, std::int64_t b, std::int64_t h) {
  return x.at(b * x.stride[0] + h * x.stride[2]);
}

/// The same of a gradient's destination; nobody wants it when that is empty.
inline AttentionSink sink_of(const Sink& s, std::int64_t b, std::int64_t h) {
  return s ? AttentionSink{head_of(s.to, b, h), s.to.stride[1], s.beta} : AttentionSink{nullptr, 0, 0};
}

/// Threads that B * H tasks keep busy, each with scratch of its own.
inline std::int64_t workers(std::int64_t B, std::int64_t H) {
  return std::min<std::int64_t>(thread_count(), B * H);
}

inline void check_view(const Tensor& x, const Tensor& like) {
  QUERN_CHECK(x.rank == 4 && x.type == like.type, x.rank);
  QUERN_CHECK(x.stride[3] == 1 || x.dim[3] == 1, x.stride[3]);
  QUERN_CHECK(same_shape(x, like), x.dim[0], x.dim[1], x.dim[2], x.dim[3], like.dim[0], like.dim[1],
              like.dim[2], like.dim[3]);
}

/// q (B,T,H,D), k and v (B,S,Hkv,D) of one type, where Hkv divides H; lengths (B) in [0, S], or null.
inline void check_heads(const Tensor& q, const Tensor& k, const Tensor& v, const std::int32_t* lengths) {
  check_view(q, q);
  check_view(k, k);
  QUERN_CHECK(k.type == q.type);
  check_view(v, k);
  QUERN_CHECK(k.dim[0] == q.dim[0] && q.dim[2] % k.dim[2] == 0 && k.dim[3] == q.dim[3], q.dim[0], k.dim[0],
              q.dim[2], k.dim[2], q.dim[3], k.dim[3]);
  check_lengths(lengths, q.dim[0], k.dim[1]);
}

}  // namespace quern::kernels
