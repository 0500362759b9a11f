// The owner of everything that lives longer than a step: contiguous slabs of values, gradients and moments.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quern/autograd/var.hpp"
#include "quern/base/arena.hpp"

namespace quern {

/// What a parameter starts as.
struct Init {
  enum class Kind { constant, normal, uniform, orthogonal } kind = Kind::constant;
  double scale = 0;  // the constant; the standard deviation; the bound of (-scale, scale); nothing

  static Init constant(double value) { return {Kind::constant, value}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  /// Rows (M,D), each as normal numbers are distributed, but orthogonal within each D of them (Choromanski et
  /// al. 2021, 2009.14794, section 2.4).
  static Init orthogonal() { return {Kind::orthogonal}; }
};

/// A named tensor that training changes. Its gradient's destination lives in the store; `slot.written` says
/// whether this step has written it, over all micro-batches.
struct Parameter {
  std::string name;  // "decoder.blocks.0.attention.qkv.weight"
  std::vector<std::int64_t> shape;
  bool decays;  // weight decay: matrices and embeddings do, norms and biases never
  bool fixed;   // drawn once and saved, but not trained: no gradient, no moments
  Init init;
  /// The rows of each of the matrices between activations that it stacks: q, k and v of a packed projection.
  /// Empty for an embedding, a head, a gain, a bias.
  std::vector<std::int64_t> matrices{};
  Slot slot{};
  std::int64_t offset = 0;  // of its first number in each slab

  std::int64_t size() const;
};

/// Registration first (modules' constructors), then allocate(), then use. Every parameter starts on a 64-byte
/// boundary; those that decay come first, so that each kind is one range: {decaying range, the rest}. Fixed
/// ones lie behind all that is trained, among the values alone.
class ParamStore {
 public:
  /// `compute` is the element type of products and of the activations between operations. With bf16 a copy of
  /// the values in bf16, the shadow, lies beside them; values, gradients and moments are f32 in any case.
  /// With Backing::none there are shapes and sizes alone, for a tape that plans.
  explicit ParamStore(Type compute = Type::f32, Backing backing = Backing::memory)
      : compute_(compute), backing_(backing) {}

  Type compute() const { return compute_; }
  Backing backing() const { return backing_; }

  /// Registers a parameter; the reference stays valid. A name may appear once.
  Parameter& add(std::string name, std::vector<std::int64_t> shape, bool decays, Init init,
                 bool fixed = false);

  /// Lays out and zeroes the slabs. `trains` false (sampling, evaluation) leaves gradients and moments away.
  void allocate(bool trains);

  /// Brings the shadow up to date after the values were set from outside. (The optimizer does it as it goes.)
  void refresh_shadow();
  /// Every parameter's first values: number i of the parameter is a pure function of (seed, name, i).
  void initialise(std::uint64_t seed);

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  std::int64_t parameter_count() const;  // numbers that are trained, padding aside

  /// Forgets all gradients: the next writer of each overwrites.
  void begin_step();
  /// Gradients that nobody wrote become zero; call before reading the slab.
  void complete_gradients();

  std::int64_t decaying_size() const { return decaying_; }  // the slab's first `decaying_size` numbers decay
  std::int64_t slab_size() const { return size_; }          // all that is trained
  float* values() { return values_.get(); }
  bf16* shadow() { return shadow_.get(); }  // null when compute() is f32
  float* gradients() { return gradients_.get(); }
  float* first_moments() { return first_moments_.get(); }
  float* second_moments() { return second_moments_.get(); }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  template <class T>
  using Slab = std::unique_ptr<T, Free>;
  template <class T>
  Slab<T> make_slab(std::int64_t size) const;

  Type compute_;
  Backing backing_;

  std::deque<Parameter> parameters_;
  std::int64_t decaying_ = 0, size_ = 0;
  std::int64_t values_size_ = 0;  // with what is fixed
  Slab<float> values_, gradients_, first_moments_, second_moments_;
  Slab<bf16> shadow_;
};

}  // namespace quern
