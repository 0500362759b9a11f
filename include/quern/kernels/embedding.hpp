// Token embedding with positions and dropout.
#pragma once

#include <cstdint>

#include "quern/kernels/dropout.hpp"
#include "quern/kernels/tensor.hpp"

namespace quern {

/// out[b,t] = dropout(scale * table[ids[b,t]] + positions[first_position + t - starts[b,t]])
///   out (B,T,C) contiguous, ids (B,T) in [0, V), table (V,C), positions (P,C) or empty, starts (B,T) in
///   [0, t], or null: 0.
/// Dropout's row is b * T + t, its column the channel.
void embedding_forward(Tensor out, const std::int32_t* ids, Tensor table, float scale, Tensor positions,
                       std::int64_t first_position, const Dropout& dropout,
                       const std::int32_t* starts = nullptr);

/// With d[b,t] = mask * dout[b,t]:
///   dtable[v] = sum of scale * d[b,t] over all (b,t) with ids[b,t] = v            // (V,C), whole table
///   dpositions[p] = sum of d[b,t] over all (b,t) that stand at p                  // (P,C), whole table
/// each + beta * what was there (rows that nobody used get beta * what was there, so zeros for beta 0).
/// Summed in the order of (b,t), in parallel over slices of channels.
void embedding_backward(Sink dtable, Sink dpositions, Tensor dout, const std::int32_t* ids, float scale,
                        std::int64_t first_position, const Dropout& dropout,
                        const std::int32_t* starts = nullptr);

/// The fixed positions of Vaswani et al. 2017 (1706.03762, section 3.5), sines and cosines in halves instead
/// of in turns:
///   table[p, i] = sin(p * 10000^(-2i/C)),  table[p, C/2 + i] = cos(p * 10000^(-2i/C)),  0 <= i < C/2
/// (P,C), C even; computed in double.
void sinusoidal_positions(Tensor table);

}  // namespace quern
