// The recurrent kernels of a level. Plain types only.
#pragma once

#include <stdint.h>

#include "row_level.hpp"

namespace quern::kernels {

/// Which sequences a step belongs to: those that are longer; lengths null: all.
struct RecurrentReach {
  const int32_t* lengths;
  int64_t step;
};

/// One step; row b is sequence b. gates, out and activated are of one type.
struct RecurrentStep {
  Rows gates, more;     // (B,G*C): x, and what is added to it, f32; more may be none
  Rows product;         // (B,G*C), f32: p
  Rows state;           // (B,C) or (B,2C), f32: before, then behind
  Rows out, activated;  // (B,C), (B,4C); activated may be none
  Rows cells;           // (B,C), f32; may be none
  RecurrentReach reach;
  bool lstm;
  int64_t cols;  // C
};

/// activated, before, dgates and dproduct are of one type.
struct RecurrentStepBackward {
  Rows dout;                 // (B,C), of either type; none: 0
  Rows dstate;               // (B,C) or (B,2C), f32: of the state behind, then the direct part of that before
  Rows activated;            // (B,4C)
  Rows before;               // (B,C): a GRU's h; none: 0
  Rows cells, cells_before;  // (B,C), f32: an LSTM's c; none: 0
  Rows dgates, dproduct;     // (B,G*C): dx and dp, which are one for an LSTM
  RecurrentReach reach;
  bool lstm;
  int64_t cols;  // C
};

/// Additive attention of one query a sequence. query, keys, memory and context are of one type; row j of
/// sequence b of the keys lies j * key_row elements behind row b.
struct AdditiveRead {
  Rows query;         // (B,A)
  Rows keys, memory;  // (B,S,A), (B,S,M)
  int64_t key_row, memory_row;
  const float* v;                           // (A)
  const int32_t* lengths;                   // (B); null: all keys are seen
  int64_t keys_count, width, memory_width;  // S, A, M
  Rows weights;                             // (B,S), f32; not read in backward
  Rows context, lse;                        // (B,M), (B)
};

struct AdditiveReadBackward {
  AdditiveRead forward;
  Rows dcontext;        // (B,M), f32
  Rows dquery;          // (B,A), f32
  Rows dkeys, dmemory;  // (B,S,A), (B,S,M), f32 and contiguous: added to
  Rows dv;              // (B,A), f32: added to
  Rows room;            // (B,A), f32
};

}  // namespace quern::kernels

/// [begin, end) are sequences.
#define QUERN_LEVEL_RECURRENT_KERNELS(X)                                                   \
  X(recurrent_step, (const RecurrentStep& a, int64_t begin, int64_t end))                  \
  X(recurrent_step_backward, (const RecurrentStepBackward& a, int64_t begin, int64_t end)) \
  X(additive_read, (const AdditiveRead& a, int64_t begin, int64_t end))                    \
  X(additive_read_backward, (const AdditiveReadBackward& a, int64_t begin, int64_t end))
