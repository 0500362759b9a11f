#include "quern/train/model_tensors.hpp"

#include <algorithm>

#include "quern/base/check.hpp"
#include "quern/kernels/reduce.hpp"

namespace quern {
namespace {

template <class Named>
void add(std::vector<Named>& out, const char* prefix, const Parameter& p, float* slab) {
  out.push_back({prefix + p.name, safetensors::DType::F32, p.shape, slab + p.offset});
}

template <class Named>
std::vector<Named> values(ParamStore& parameters) {
  std::vector<Named> out;
  for (const Parameter& p : parameters.all()) add(out, "", p, parameters.values());
  return out;
}

template <class Named>
std::vector<Named> moments(ParamStore& parameters) {
  std::vector<Named> out;
  for (const Parameter& p : parameters.all()) {
    if (p.fixed) continue;
    add(out, "m.", p, parameters.first_moments());
    add(out, "v.", p, parameters.second_moments());
  }
  return out;
}

/// Whether a tensor of floats has no NaN and no infinity; it is read in pieces.
bool all_finite(const safetensors::Reader& from, const safetensors::TensorInfo& tensor) {
  constexpr std::uint64_t piece = 1 << 20;  // bytes
  std::vector<float> numbers(static_cast<std::size_t>(std::min(piece, tensor.bytes()) / sizeof(float)));
  for (std::uint64_t at = 0; at < tensor.bytes(); at += piece) {
    const std::uint64_t bytes = std::min(piece, tensor.bytes() - at);
    from.read_part(tensor, at, numbers.data(), bytes);
    if (first_nonfinite(numbers.data(), static_cast<std::int64_t>(bytes / sizeof(float))) >= 0) return false;
  }
  return true;
}

}  // namespace

std::vector<safetensors::TensorEntry> model_entries(ParamStore& p) {
  return values<safetensors::TensorEntry>(p);
}
std::vector<safetensors::TensorEntry> optim_entries(ParamStore& p) {
  return moments<safetensors::TensorEntry>(p);
}

void read_model(const LoadedCheckpoint& from, ParamStore& p) {
  from.read_model(values<safetensors::TensorTarget>(p));
  p.refresh_shadow();
}
void read_moments(const LoadedCheckpoint& from, ParamStore& p) {
  from.read_optim(moments<safetensors::TensorTarget>(p));
}

void require_finite(const LoadedCheckpoint& checkpoint) {
  for (const safetensors::Reader* file : {&checkpoint.model(), &checkpoint.optim()})
    for (const safetensors::TensorInfo& tensor : file->tensors())
      if (tensor.dtype == safetensors::DType::F32 && !all_finite(*file, tensor))
        throw Error(
            ErrorKind::file,
            "the checkpoint's numbers are not finite: no training goes on from them; first bad tensor: " +
                tensor.name,
            "resume an older checkpoint of the run", file->path().string());
}

}  // namespace quern
