// The row kernels of a level: norms, activations, loss, embedding, AdamW, sums. Plain types only.
#pragma once

#include <stdint.h>

#define QUERN_LEVEL_ROW_KERNELS(X)
