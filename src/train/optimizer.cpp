#include "quern/train/optimizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "quern/autograd/tape.hpp"
#include "quern/kernels/adamw.hpp"
#include "quern/kernels/muon.hpp"
#include "quern/kernels/reduce.hpp"

namespace quern {

namespace {

Cost norm_cost(const ParamStore& parameters) { return {0, 4 * static_cast<double>(parameters.slab_size())}; }

/// Reads four slabs and writes all but the gradient, and with bf16 the shadow.
Cost adamw_cost(const ParamStore& parameters, std::int64_t n) {
  return {0, (parameters.compute() == Type::bf16 ? 30.0 : 28.0) * static_cast<double>(n)};
}

/// Momentum, its look ahead, norm and scale move 11 matrices, the change and its size 10; each of five
/// Newton-Schulz steps has products of 2 K²L twice and 2 K³, which with their sums move 6 matrices and 7
/// squares.
/// A matrix is (M,N), K and L its smaller and its larger side.
Cost muon_cost(const ParamStore& parameters, const Parameter& p) {
  Cost cost;
  for (const std::int64_t rows : p.matrices) {
    const double K = static_cast<double>(std::min(rows, p.shape[1])),
                 L = static_cast<double>(std::max(rows, p.shape[1]));
    const double shadow = parameters.compute() == Type::bf16 ? 6 * K * L : 0;
    cost = cost + Cost{5 * (4 * K * K * L + 2 * K * K * K), 4 * (51 * K * L + 35 * K * K) + shadow};
  }
  return cost;
}

}  // namespace

OptimizerCost optimizer_cost(const ParamStore& parameters, const OptimConfig& optim) {
  OptimizerCost cost;
  cost.norm = norm_cost(parameters);
  if (optim.optimizer == OptimizerKind::adamw) {
    cost.adamw = adamw_cost(parameters, parameters.slab_size());
    return cost;
  }
  for (const Parameter& p : parameters.all()) {
    if (p.fixed) continue;
    if (p.matrices.empty()) {
      cost.adamw = cost.adamw + adamw_cost(parameters, p.size());
      continue;
    }
    cost.muon = cost.muon + muon_cost(parameters, p);
    for (const std::int64_t rows : p.matrices)
      cost.scratch = std::max(cost.scratch, bytes_of_floats(muon_scratch(rows, p.shape[1])));
  }
  return cost;
}

double gradient_norm(ParamStore& parameters) {
  const ScopedSlice slice(Phase::optimizer, "gradient_norm", norm_cost(parameters));
  return std::sqrt(sum_of_squares(parameters.gradients(), parameters.slab_size()));
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

std::string first_nonfinite_value(ParamStore& parameters) {
  for (const Parameter& p : parameters.all())
    if (first_nonfinite(p.slot.value.f32(), p.size()) >= 0) return p.name;
  return {};
}

std::string first_nonfinite_gradient(ParamStore& parameters) {
  for (const Parameter& p : parameters.all())
    if (!p.fixed && first_nonfinite(p.slot.grad.f32(), p.size()) >= 0) return p.name;
  return {};
}

namespace {

/// AdamW on a stretch of the slabs.
Squares adamw_range(ParamStore& p, std::int64_t begin, std::int64_t end, const AdamW& adamw) {
  const ScopedSlice slice(Phase::optimizer, "adamw", adamw_cost(p, end - begin));
  return adamw_update(p.values() + begin, p.gradients() + begin, p.first_moments() + begin,
                      p.second_moments() + begin, end - begin, adamw,
                      p.shadow() != nullptr ? p.shadow() + begin : nullptr);
}

/// Muon on each of the matrices that a parameter stacks. The momentum lies in the first moments.
Squares muon_parameter(ParamStore& store, const Parameter& p, const Muon& muon, Pool& pool) {
  const ScopedSlice slice(Phase::optimizer, "muon", muon_cost(store, p), p.name);
  const std::int64_t cols = p.shape[1];
  Squares squares;
  std::int64_t offset = p.offset;
  for (const std::int64_t rows : p.matrices) {
    const auto part = [&](float* slab) { return Tensor(slab + offset, {rows, cols}); };
    Tensor shadow;
    if (store.shadow() != nullptr)
      shadow = Tensor(store.shadow() + offset, Type::bf16, std::array{rows, cols});
    const Scratch scratch(pool, muon_scratch(rows, cols));
    squares += muon_update(part(store.values()), part(store.gradients()), part(store.first_moments()), shadow,
                           muon, scratch.span());
    offset += rows * cols;
  }
  QUERN_CHECK(offset == p.offset + p.size(), p.name);
  return squares;
}

double ratio(const Squares& squares) { return std::sqrt(squares.change / squares.weights); }

}  // namespace

double update(ParamStore& parameters, const OptimConfig& optim, double learning_rate, double gradient_scale,
              std::int64_t step, Pool& pool) {
  AdamW adamw;
  adamw.learning_rate = static_cast<float>(learning_rate);
  adamw.beta1 = static_cast<float>(optim.betas[0]);
  adamw.beta2 = static_cast<float>(optim.betas[1]);
  adamw.eps = static_cast<float>(optim.eps);
  adamw.gradient_scale = static_cast<float>(gradient_scale);
  adamw.step = step;
  AdamW decaying = adamw;
  decaying.weight_decay = static_cast<float>(optim.weight_decay);
  Squares squares;
  if (optim.optimizer == OptimizerKind::adamw) {
    squares += adamw_range(parameters, 0, parameters.decaying_size(), decaying);
    squares += adamw_range(parameters, parameters.decaying_size(), parameters.slab_size(), adamw);
    return ratio(squares);
  }
  Muon muon;
  muon.learning_rate = static_cast<float>(optim.muon_learning_rate * (learning_rate / optim.learning_rate));
  muon.momentum = static_cast<float>(optim.muon_momentum);
  muon.weight_decay = decaying.weight_decay;
  muon.gradient_scale = adamw.gradient_scale;
  for (const Parameter& p : parameters.all()) {
    if (p.fixed) continue;
    squares += p.matrices.empty()
                   ? adamw_range(parameters, p.offset, p.offset + p.size(), p.decays ? decaying : adamw)
                   : muon_parameter(parameters, p, muon, pool);
  }
  return ratio(squares);
}

}  // namespace quern
