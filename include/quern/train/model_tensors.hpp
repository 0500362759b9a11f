// A model's slabs as the named tensors that a checkpoint holds.
#pragma once

#include <vector>

#include "quern/autograd/parameters.hpp"
#include "quern/io/safetensors.hpp"
#include "quern/train/loaded_checkpoint.hpp"

namespace quern {

/// "decoder.blocks.0.attention.qkv.weight" (3C,C) …: what model.safetensors holds.
std::vector<safetensors::TensorEntry> model_entries(ParamStore& parameters);

/// The two moments of each parameter, "m.<name>" and "v.<name>": what optim.safetensors holds.
std::vector<safetensors::TensorEntry> optim_entries(ParamStore& parameters);

/// The values, and what is derived from them, from a checkpoint's model.safetensors; the moments from its
/// optim.safetensors. Both throw what LoadedCheckpoint's functions throw.
void read_model(const LoadedCheckpoint& from, ParamStore& parameters);
void read_moments(const LoadedCheckpoint& from, ParamStore& parameters);

/// Throws Error(file), naming the tensor, unless all weights and moments of a checkpoint are finite: training
/// cannot go on from others.
void require_finite(const LoadedCheckpoint& from);

}  // namespace quern
