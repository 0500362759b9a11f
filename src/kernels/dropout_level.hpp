// Dropout's key (quern::Dropout) as a level sees it. Plain types only.
#pragma once

#include <stdint.h>

namespace quern::kernels {

struct DropoutKey {
  uint32_t key[2];     // RandomStream::key
  uint32_t step;       // RandomStream::step
  uint64_t first_row;  // the global index of row 0
  uint32_t threshold;  // 0: no dropout
  float scale;
};

}  // namespace quern::kernels
