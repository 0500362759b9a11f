#pragma once

#include <string>
#include <utility>
#include <vector>

#include "quern/autograd/parameters.hpp"
#include "quern/base/rng.hpp"

namespace quern {

/// Where a module registers its parameters: the store and the module's path. The path is also what names its
/// randomness, so that it does not depend on the order of calls.
class Scope {
 public:
  explicit Scope(ParamStore& store, std::string path = {}) : store_(store), path_(std::move(path)) {}

  Scope operator/(const std::string& name) const {
    return Scope(store_, path_.empty() ? name : path_ + "." + name);
  }

  /// A matrix between activations, or several on top of one another with `parts` rows each: decays.
  Parameter* matrix(const std::string& name, std::int64_t rows, std::int64_t cols, Init init,
                    std::vector<std::int64_t> parts = {}) const {
    Parameter* const parameter = table(name, rows, cols, init);
    parameter->matrices = parts.empty() ? std::vector{rows} : std::move(parts);
    return parameter;
  }
  /// An embedding or a head, a row for each token or position, or a vector for each head: decays.
  Parameter* table(const std::string& name, std::int64_t rows, std::int64_t cols, Init init) const {
    return &store_.add((*this / name).path_, {rows, cols}, true, init);
  }
  /// A gain or a bias: never decays.
  Parameter* vector(const std::string& name, std::int64_t n, double value) const {
    return vector(name, n, Init::constant(value));
  }
  Parameter* vector(const std::string& name, std::int64_t n, Init init) const {
    return &store_.add((*this / name).path_, {n}, false, init);
  }

  /// A matrix that is drawn once, saved with the model, and never trained.
  Parameter* fixed_matrix(const std::string& name, std::int64_t rows, std::int64_t cols, Init init) const {
    return &store_.add((*this / name).path_, {rows, cols}, false, init, true);
  }

  /// The type of products and of the activations between operations.
  Type compute() const { return store_.compute(); }
  /// Whether the module is to have numbers at all.
  Backing backing() const { return store_.backing(); }

  const std::string& path() const { return path_; }
  std::uint64_t site() const { return site_hash(path_); }

 private:
  ParamStore& store_;
  std::string path_;
};

/// The variable of a parameter that may be absent.
inline Var var(Parameter* parameter) { return parameter != nullptr ? Var(parameter->slot) : Var(); }

}  // namespace quern
