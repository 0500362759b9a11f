#include "quern/autograd/parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numbers>

#include "quern/base/parallel.hpp"
#include "quern/base/rng.hpp"
#include "quern/kernels/elementwise.hpp"

namespace quern {
namespace {

constexpr std::int64_t cache_line = 16;  // floats

}  // namespace

std::int64_t Parameter::size() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

void ParamStore::Free::operator()(void* p) const { std::free(p); }

Parameter& ParamStore::add(std::string name, std::vector<std::int64_t> shape, bool decays, Init init) {
  QUERN_CHECK(std::none_of(parameters_.begin(), parameters_.end(),
                           [&name](const Parameter& p) { return p.name == name; }),
              name);
  QUERN_CHECK(!values_, name);  // the slabs are laid out already
  parameters_.push_back({std::move(name), std::move(shape), decays, init});
  return parameters_.back();
}

template <class T>
ParamStore::Slab<T> ParamStore::make_slab() const {
  const auto bytes = (static_cast<std::size_t>(std::max(size_, cache_line)) * sizeof(T) + 63) / 64 * 64;
  Slab<T> slab(static_cast<T*>(std::aligned_alloc(64, bytes)));
  if (!slab) throw std::bad_alloc();
  std::memset(slab.get(), 0, bytes);
  return slab;
}

void ParamStore::allocate(bool trains) {
  size_ = 0;
  for (const bool decays : {true, false}) {
    for (Parameter& p : parameters_) {
      if (p.decays != decays) continue;
      p.offset = size_;
      size_ += (p.size() + cache_line - 1) / cache_line * cache_line;
    }
    if (decays) decaying_ = size_;
  }
  if (backing_ == Backing::none) {
    static char nowhere[64];
    for (Parameter& p : parameters_) {
      p.slot.value = Tensor(nowhere, Type::f32, p.shape);
      if (compute_ == Type::bf16) p.slot.shadow = Tensor(nowhere, Type::bf16, p.shape);
      p.slot.needs_grad = trains;
      if (trains) p.slot.grad = p.slot.value;
    }
    return;
  }
  values_ = make_slab<float>();
  if (compute_ == Type::bf16) shadow_ = make_slab<bf16>();
  if (trains) {
    gradients_ = make_slab<float>();
    first_moments_ = make_slab<float>();
    second_moments_ = make_slab<float>();
  }
  for (Parameter& p : parameters_) {
    p.slot.value = Tensor(values_.get() + p.offset, Type::f32, p.shape);
    if (shadow_) p.slot.shadow = Tensor(shadow_.get() + p.offset, Type::bf16, p.shape);
    p.slot.needs_grad = trains;
    if (trains) p.slot.grad = Tensor(gradients_.get() + p.offset, Type::f32, p.shape);
  }
}

void ParamStore::initialise(std::uint64_t seed) {
  for (Parameter& p : parameters_) {
    float* values = p.slot.value.f32();
    const RandomStream stream(seed, site_hash(p.name), 0);
    const double scale = p.init.scale;
    const auto set = [&p, &stream, values, scale](std::int64_t i) {
      const auto bits = stream.at(static_cast<std::uint64_t>(i), 0);
      switch (p.init.kind) {
        case Init::Kind::constant: values[i] = static_cast<float>(scale); break;
        case Init::Kind::uniform: values[i] = static_cast<float>(scale * (2 * uniform(bits[0]) - 1)); break;
        case Init::Kind::normal:  // Box & Muller 1958; the half keeps the logarithm finite
          values[i] = static_cast<float>(scale * std::sqrt(-2 * std::log((bits[0] + 0.5) * 0x1p-32)) *
                                         std::cos(2 * std::numbers::pi * uniform(bits[1])));
          break;
      }
    };
    parallel_for(p.size(), 4096, [&set](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) set(i);
    });
  }
  refresh_shadow();
}

void ParamStore::refresh_shadow() {
  if (shadow_)
    convert({Tensor(shadow_.get(), Type::bf16, std::array{size_}), 0}, Tensor(values_.get(), {size_}));
}

std::int64_t ParamStore::parameter_count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.size();
  return n;
}

void ParamStore::begin_step() {
  for (Parameter& p : parameters_) p.slot.written = false;
}

void ParamStore::complete_gradients() {
  for (Parameter& p : parameters_) {
    if (p.slot.written) continue;
    fill(p.slot.grad, 0);
    p.slot.written = true;
  }
}

}  // namespace quern
