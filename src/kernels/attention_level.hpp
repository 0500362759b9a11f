// The attention kernels of a level. Plain types only.
#pragma once

#include <stdint.h>

#define QUERN_LEVEL_ATTENTION_KERNELS(X)
