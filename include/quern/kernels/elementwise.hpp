// Element by element on (R,C): rows may lie apart (a row stride), columns not.
#pragma once

#include "quern/kernels/tensor.hpp"

namespace quern {

/// to = value, f32 or bf16.
void fill(Tensor to, float value);

/// to = factor * x + beta * to, where each is f32 or bf16: rounded to nearest, ties to even, when it is
/// stored. A copy with factor 1 and beta 0: then a NaN keeps its bits. x may be to's own buffer. An empty
/// sink is skipped.
void add_scaled(Sink to, Tensor x, float factor);

/// to = x + beta * to: a copy from one type to the other.
inline void convert(Sink to, Tensor x) { add_scaled(to, x, 1); }

}  // namespace quern
