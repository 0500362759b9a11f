// A model's slabs as the named tensors that a checkpoint holds.
#pragma once

#include <vector>

#include "quern/autograd/parameters.hpp"
#include "quern/io/safetensors.hpp"

namespace quern {

/// "decoder.blocks.0.attention.qkv.weight" (3C,C) …: what model.safetensors holds, to write and to fill.
std::vector<safetensors::TensorEntry> model_entries(ParamStore& parameters);
std::vector<safetensors::TensorTarget> model_targets(ParamStore& parameters);

/// The two moments of each parameter, "m.<name>" and "v.<name>": what optim.safetensors holds.
std::vector<safetensors::TensorEntry> optim_entries(ParamStore& parameters);
std::vector<safetensors::TensorTarget> optim_targets(ParamStore& parameters);

}  // namespace quern
