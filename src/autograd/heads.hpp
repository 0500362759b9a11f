// Heads of (B,T,C) variables, for the operations of attention.
#pragma once

#include "quern/autograd/var.hpp"

namespace quern {

/// The sink of (B,T,C), as (B,T,heads,D).
inline Sink by_head(Sink sink, std::int64_t heads) {
  if (sink) sink.to = sink.to.split_last(heads);
  return sink;
}

/// q (B,T,heads*D); k and v (B,S,key_heads*D).
inline void check_heads(Var q, Var k, Var v, std::int64_t heads, std::int64_t key_heads) {
  QUERN_CHECK(
      q.shape().rank == 3 && same_shape(k.shape(), v.shape()) && q.dim(2) * key_heads == k.dim(2) * heads,
      q.shape().rank, q.dim(2), heads, k.dim(2), key_heads);
}

}  // namespace quern
