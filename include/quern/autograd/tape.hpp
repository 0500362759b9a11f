// Reverse-mode differentiation. Operations run at once and record how to go back; backward() is one reverse
// loop. Execution order is topological order (Griewank & Walther 2008, "Evaluating Derivatives",
// section 3.2).
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/autograd/parameters.hpp"
#include "quern/base/arena.hpp"
#include "quern/base/profile.hpp"
#include "quern/base/rng.hpp"
#include "quern/kernels/dropout.hpp"

namespace quern {

class Tape;

/// An operation's forward between its braces; false on a tape that plans.
class Running {
 public:
  Running(bool runs, Phase phase, const char* name, const Cost& cost, std::string_view module)
      : runs_(runs), slice_(phase, name, cost, module) {}
  explicit operator bool() const { return runs_; }

 private:
  bool runs_;
  ScopedSlice slice_;
};

/// What an operation states of itself, from its shapes alone:
///   forward, backward   products' arithmetic and tensors' traffic, for profiles and estimates
///   scratch             bytes of each Scratch that its closure takes: planning takes them in its place
///   hands_over          its closure hands the first output's gradient on to the first input
struct OpCost {
  Cost forward = {}, backward = {};
  std::array<std::int64_t, 3> scratch{};
  bool hands_over = false;
};

/// The bytes of a Scratch of so many floats.
inline std::int64_t bytes_of_floats(std::size_t n) { return static_cast<std::int64_t>(n * sizeof(float)); }

/// What an operation's closure does: run kernels, or go through further operations on a tape of its own,
/// which are profiled and planned themselves.
enum class Runs { kernels, operations };

/// One recorded operation.
struct Node {
  const char* name;
  void (*backward)(Tape&, const void* closure);
  const void* closure;
  Slot** inputs;
  int input_count;
  Slot** outputs;
  int output_count;
  Runs runs;
  OpCost cost;
  std::string_view module;  // whose operation it is
};

/// The memory that tapes work in; kept from step to step. With Backing::none its tapes plan: no kernel runs
/// and no number exists, but memory is counted and a profile gets every operation with its cost.
struct Workspace {
  explicit Workspace(Backing backing = Backing::memory) : pool(backing) {}

  Arena arena;
  Pool pool;
  std::vector<Node> nodes;
  /// Called after each operation that is recorded, and those of a part that will be made again, while its
  /// numbers are there: in Phase::forward the outputs' values, in Phase::backward the inputs' gradients.
  /// Empty, unless somebody looks for where a number comes from.
  std::function<void(const Node&, Phase)> inspect;
  std::int64_t planned_statistics = 0, planned_statistics_peak = 0;  // bytes that planning tapes ask for
};

enum class Mode {
  train,  // records, drops out
  infer,  // records nothing, no dropout; the same modules run
};

/// Which parts of a model are made again in backward instead of kept: see autograd/recompute.hpp.
enum class Recompute { none, block, attention };

/// Where a step's random numbers come from. `first_sequence` is the global index of the batch's first
/// sequence over micro-batches (and ranks), so that a number falls on the same element however the batch is
/// cut.
struct RandomContext {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_sequence = 0;
};

/// Lives for one forward and at most one backward pass; at its end all that it took from the workspace goes
/// back.
class Tape {
 public:
  explicit Tape(Workspace& workspace, Mode mode, RandomContext random = {},
                Recompute recompute = Recompute::none);
  /// For a part of `outer`'s forward, run with the same randomness; without `records` nothing is kept for
  /// backward. Lives inside a brace while `outer` rests, and only recompute() makes one.
  Tape(Tape& outer, bool records);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool recording() const { return mode_ == Mode::train && records_; }
  Recompute recompute() const { return recompute_; }
  bool planning() const { return workspace_.pool.backing() == Backing::none; }

  // --- making variables
  Var parameter(Parameter& parameter) { return Var(parameter.slot); }
  /// A variable on numbers that somebody else owns and that outlive the tape: an input (needs_grad for
  /// tests).
  Var leaf(Tensor value, bool needs_grad = false);
  /// A fresh variable with its own buffer, not initialised.
  Var make(std::initializer_list<std::int64_t> shape, Type type = Type::f32, bool needs_grad = true);
  /// Columns [begin, begin + n) of x's last axis as a variable of its own: the same buffer, its own gradient
  /// state.
  Var columns(Var x, std::int64_t begin, std::int64_t n);

  // --- for operations
  /// Every kernel of a forward runs inside this, before record():
  ///   if (const Running run = tape.run("linear", cost)) gemm(…);
  /// A profile times it. It is false on a tape that plans, for which only what is made and kept counts.
  Running run(const char* name, const OpCost& cost);
  /// Declares an operation. Inputs may hold "none". The closure is called as closure(tape) in backward; it
  /// must be trivially copyable and destructible: what it captures is what is saved for backward.
  template <class Closure>
  void record(const char* name, std::initializer_list<Var> inputs, std::initializer_list<Var> outputs,
              const Closure& closure, Runs runs = Runs::kernels) {
    static_assert(std::is_trivially_copyable_v<Closure> && std::is_trivially_destructible_v<Closure>);
    if (!begin_node(name, inputs, outputs)) return;
    const Closure* kept = workspace_.arena.make<Closure>(closure);
    push_node(
        name, [](Tape& tape, const void* c) { (*static_cast<const Closure*>(c))(tape); }, kept, inputs,
        outputs, runs);
  }
  /// Marks x's value as captured by a closure, so that consume() leaves it.
  Var keep(Var x);
  /// The caller was the last reader of x in forward: its buffer goes back unless a closure captured it. A
  /// value that can be made again (see refillable) goes back in any case.
  void consume(Var x);
  /// Says how x's value is made again after it was consumed: closure(tape) writes x.value(). For what costs
  /// little to compute and much to keep.
  template <class Closure>
  void refillable(Var x, const Closure& closure) {
    static_assert(std::is_trivially_copyable_v<Closure> && std::is_trivially_destructible_v<Closure>);
    if (!recording()) return;
    x.slot().refill = [](Tape& tape, const void* c) { (*static_cast<const Closure*>(c))(tape); };
    x.slot().refill_closure = workspace_.arena.make<Closure>(closure);
  }
  /// Numbers for statistics that a closure captures; they live as long as the tape.
  float* statistics(std::int64_t n);
  /// The dropout of a (sequences · rows_per_sequence, columns) tensor at a module's path; off in Mode::infer.
  Dropout dropout(std::uint64_t site, double rate, std::int64_t rows_per_sequence) const;

  // --- inside a closure
  /// x's value, made again if it was consumed.
  const Tensor& value(Var x);
  /// The gradient that reached x, complete; empty when none did.
  Tensor grad(Var x);
  /// Where x's gradient goes; empty when nobody wants it. The next writer will add. It has x's type, but is
  /// f32 where several operations read x, so that their sum rounds once.
  Sink sink(Var x);
  /// As sink(input), but y's own gradient buffer is handed on when input has none yet: then the sink's tensor
  /// *is* grad(y), beta is 0, and the kernel works in place.
  Sink hand_over(Var y, Var input);

  /// Goes back from the gradients that seed() or a loss has written.
  void backward();
  /// y's gradient starts as a copy of these numbers (for tests and heads of your own).
  void seed(Var y, Tensor gradient);

  // --- for recompute()
  /// Variables of this tape that stand for the outer tape's, with their values.
  template <std::size_t N>
  std::array<Var, N> stand_ins(const std::array<Var, N>& outer) {
    std::array<Var, N> own;
    for (std::size_t i = 0; i < N; ++i) {
      if (!outer[i]) continue;
      own[i] = leaf(value(outer[i]), outer[i].needs_grad());
      own[i].slot().consumers = outer[i].slot().consumers - 1;  // others that read it, beside this part
    }
    return own;
  }
  /// Gives what x holds to `to`, a fresh leaf of the outer tape, and `to` itself; none for none.
  Var hand_out(Var x, Var to);
  /// The gradient of `from`, as far as it is written, becomes that of `to`, which has none.
  void move_gradient(Var from, Var to);

  Pool& pool() { return workspace_.pool; }

  /// Calls f(module, bytes) for each value that is held now: after forward that is what backward needs.
  template <class F>
  void for_each_held(F&& f) const {
    for (const Slot* slot = owned_; slot != nullptr; slot = slot->next_owned)
      if (slot->value_block != nullptr) f(slot->module, slot->value.bytes());
  }

 private:
  bool begin_node(const char* name, std::initializer_list<Var> inputs, std::initializer_list<Var> outputs);
  void push_node(const char* name, void (*call)(Tape&, const void*), const void* closure,
                 std::initializer_list<Var> inputs, std::initializer_list<Var> outputs, Runs runs);
  void allocate_value(Slot& slot);
  void allocate_grad(Slot& slot);
  void release_value(Slot& slot);
  void release_grad(Slot& slot);
  void own(Slot& slot);
  void plan_backward(const Node& node);
  void run_backward(const Node& node);

  friend class InModule;

  Workspace& workspace_;
  Mode mode_;
  RandomContext random_;
  Recompute recompute_;
  bool records_;
  Phase phase_ = Phase::forward;  // of what run() opens: what is made again belongs to backward
  std::int64_t statistics_before_;
  Arena::Mark mark_;
  std::size_t first_node_;
  Slot* owned_ = nullptr;
  OpCost cost_;              // of the operation that run() opened, until it is recorded
  std::string_view module_;  // see InModule
};

/// What the tape makes and runs from here to the closing brace belongs to the module of this path, which
/// outlives tape and profile.
class InModule {
 public:
  InModule(Tape& tape, std::string_view path) : tape_(tape), before_(std::exchange(tape.module_, path)) {}
  ~InModule() { tape_.module_ = before_; }
  InModule(const InModule&) = delete;
  InModule& operator=(const InModule&) = delete;

 private:
  Tape& tape_;
  std::string_view before_;
};

/// A buffer from the pool that goes back at the closing brace: an operation's scratch.
class Scratch {
 public:
  Scratch(Pool& pool, std::size_t floats)
      : pool_(pool), data_(static_cast<float*>(pool.allocate(floats * sizeof(float)))), size_(floats) {}
  Scratch(Tape& tape, std::size_t floats) : Scratch(tape.pool(), floats) {}
  /// Room for a contiguous tensor of this shape and type.
  Scratch(Tape& tape, const Tensor& like)
      : Scratch(tape, static_cast<std::size_t>(like.bytes() + 3) / sizeof(float)) {
    tensor_ = Tensor(data_, like.type, std::span(like.dim, static_cast<std::size_t>(like.rank)));
  }
  ~Scratch() { pool_.release(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* data() const { return data_; }
  std::span<float> span() const { return {data_, size_}; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Pool& pool_;
  float* data_;
  std::size_t size_;
  Tensor tensor_;
};

}  // namespace quern
