// The table of kernels that are compiled once per level. A file in src/kernels/level/ defines each function
// in the namespace of its level; src/kernels/level.cpp chooses one table at start. Arguments are plain types:
// these files see no header of the engine but this one and simd.hpp.
#pragma once

#include "attention_level.hpp"
#include "linear_attention_level.hpp"
#include "recurrent_level.hpp"
#include "row_level.hpp"

namespace quern::kernels {

/// Every function of a level: (name, arguments). Each works on the rows [begin, end) or on one (batch, head),
/// on the calling thread; the drivers in src/kernels/*.cpp cut the work into chunks.
#define QUERN_LEVEL_KERNELS(X)            \
  QUERN_LEVEL_ROW_KERNELS(X)              \
  QUERN_LEVEL_ATTENTION_KERNELS(X)        \
  QUERN_LEVEL_LINEAR_ATTENTION_KERNELS(X) \
  QUERN_LEVEL_RECURRENT_KERNELS(X)

#define QUERN_DECLARE(name, arguments) void name arguments;
#define QUERN_POINTER(name, arguments) void(*name) arguments;

struct Level {
  QUERN_LEVEL_KERNELS(QUERN_POINTER)
};

/// The level chosen by quern::isa().
const Level& level();

}  // namespace quern::kernels
