#include "quern/autograd/parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numbers>
#include <numeric>

#include "quern/base/parallel.hpp"
#include "quern/base/rng.hpp"
#include "quern/kernels/elementwise.hpp"

namespace quern {
namespace {

constexpr std::int64_t cache_line = 16;  // floats

/// Number i of a stream, normal: Box & Muller 1958; the half keeps the logarithm finite.
double normal(const RandomStream& stream, std::int64_t i) {
  const auto bits = stream.at(static_cast<std::uint64_t>(i), 0);
  return std::sqrt(-2 * std::log((bits[0] + 0.5) * 0x1p-32)) *
         std::cos(2 * std::numbers::pi * uniform(bits[1]));
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Rows of normal numbers, turned to be orthogonal within each `width` of them by Gram & Schmidt: each keeps
/// its length, which says nothing about its direction.
void orthogonal_rows(float* to, std::int64_t rows, std::int64_t width, const RandomStream& stream) {
  std::vector<std::vector<double>> block;  // unit vectors
  for (std::int64_t r = 0; r < rows; ++r) {
    if (r % width == 0) block.clear();
    std::vector<double> row(static_cast<std::size_t>(width));
    for (std::int64_t d = 0; d < width; ++d) row[static_cast<std::size_t>(d)] = normal(stream, r * width + d);
    const double length = std::sqrt(dot(row, row));
    for (int twice = 0; twice < 2; ++twice)  // the second time takes away what rounding left
      for (const auto& other : block) {
        const double along = dot(row, other);
        for (std::size_t d = 0; d < row.size(); ++d) row[d] -= along * other[d];
      }
    const double left = std::sqrt(dot(row, row));
    for (double& x : row) x /= left;
    for (std::int64_t d = 0; d < width; ++d)
      to[r * width + d] = static_cast<float>(length * row[static_cast<std::size_t>(d)]);
    block.push_back(std::move(row));
  }
}

}  // namespace

std::int64_t Parameter::size() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

void ParamStore::Free::operator()(void* p) const { std::free(p); }

Parameter& ParamStore::add(std::string name, std::vector<std::int64_t> shape, bool decays, Init init,
                           bool fixed) {
  QUERN_CHECK(std::none_of(parameters_.begin(), parameters_.end(),
                           [&name](const Parameter& p) { return p.name == name; }),
              name);
  QUERN_CHECK(!values_, name);  // the slabs are laid out already
  parameters_.push_back({std::move(name), std::move(shape), decays, fixed, init});
  return parameters_.back();
}

template <class T>
ParamStore::Slab<T> ParamStore::make_slab(std::int64_t size) const {
  const auto bytes = (static_cast<std::size_t>(std::max(size, cache_line)) * sizeof(T) + 63) / 64 * 64;
  Slab<T> slab(static_cast<T*>(std::aligned_alloc(64, bytes)));
  if (!slab) throw std::bad_alloc();
  std::memset(slab.get(), 0, bytes);
  return slab;
}

void ParamStore::allocate(bool trains) {
  std::int64_t end = 0;
  const auto place = [this, &end](bool decays, bool fixed) {
    for (Parameter& p : parameters_) {
      if (p.decays != decays || p.fixed != fixed) continue;
      p.offset = end;
      end += (p.size() + cache_line - 1) / cache_line * cache_line;
    }
    return end;
  };
  decaying_ = place(true, false);
  size_ = place(false, false);
  values_size_ = place(false, true);
  if (backing_ == Backing::none) {
    static char nowhere[64];
    for (Parameter& p : parameters_) {
      p.slot.value = Tensor(nowhere, Type::f32, p.shape);
      if (compute_ == Type::bf16) p.slot.shadow = Tensor(nowhere, Type::bf16, p.shape);
      p.slot.needs_grad = trains && !p.fixed;
      if (p.slot.needs_grad) p.slot.grad = p.slot.value;
    }
    return;
  }
  values_ = make_slab<float>(values_size_);
  if (compute_ == Type::bf16) shadow_ = make_slab<bf16>(values_size_);
  if (trains) {
    gradients_ = make_slab<float>(size_);
    first_moments_ = make_slab<float>(size_);
    second_moments_ = make_slab<float>(size_);
  }
  for (Parameter& p : parameters_) {
    p.slot.value = Tensor(values_.get() + p.offset, Type::f32, p.shape);
    if (shadow_) p.slot.shadow = Tensor(shadow_.get() + p.offset, Type::bf16, p.shape);
    p.slot.needs_grad = trains && !p.fixed;
    if (p.slot.needs_grad) p.slot.grad = Tensor(gradients_.get() + p.offset, Type::f32, p.shape);
  }
}

void ParamStore::initialise(std::uint64_t seed) {
  for (Parameter& p : parameters_) {
    float* values = p.slot.value.f32();
    const RandomStream stream(seed, site_hash(p.name), 0);
    const double scale = p.init.scale;
    if (p.init.kind == Init::Kind::orthogonal) {
      orthogonal_rows(values, p.shape.at(0), p.shape.at(1), stream);
      continue;
    }
    const auto set = [&p, &stream, values, scale](std::int64_t i) {
      switch (p.init.kind) {
        case Init::Kind::uniform:
          values[i] =
              static_cast<float>(scale * (2 * uniform(stream.at(static_cast<std::uint64_t>(i), 0)[0]) - 1));
          break;
        case Init::Kind::normal: values[i] = static_cast<float>(scale * normal(stream, i)); break;
        default: values[i] = static_cast<float>(scale); break;
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
    convert({Tensor(shadow_.get(), Type::bf16, std::array{values_size_}), 0},
            Tensor(values_.get(), {values_size_}));
}

std::int64_t ParamStore::parameter_count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_)
    if (!p.fixed) n += p.size();
  return n;
}

void ParamStore::begin_step() {
  for (Parameter& p : parameters_) p.slot.written = false;
}

void ParamStore::complete_gradients() {
  for (Parameter& p : parameters_) {
    if (p.slot.written || p.fixed) continue;
    fill(p.slot.grad, 0);
    p.slot.written = true;
  }
}

}  // namespace quern
