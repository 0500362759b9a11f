#include "quern/train/model_tensors.hpp"

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

}  // namespace quern
