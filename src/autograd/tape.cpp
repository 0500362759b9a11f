#include "quern/autograd/tape.hpp"

#include <algorithm>
#include <cstring>

#include "quern/kernels/elementwise.hpp"

namespace quern {
namespace {

/// Of a slot's gradient. Parts share their owner's.
Type gradient_type(const Slot& slot) {
  return slot.consumers > 1 && slot.parts == nullptr ? Type::f32 : slot.value.type;
}

}  // namespace

Tape::Tape(Workspace& workspace, Mode mode, RandomContext random, Recompute recompute)
    : workspace_(workspace),
      mode_(mode),
      random_(random),
      recompute_(recompute),
      records_(true),
      statistics_before_(workspace.planned_statistics),
      mark_(workspace.arena.mark()),
      first_node_(workspace.nodes.size()) {}

Tape::Tape(Tape& outer, bool records) : Tape(outer.workspace_, outer.mode_, outer.random_) {
  records_ = records;
  phase_ = records ? Phase::backward : outer.phase_;
  module_ = outer.module_;
}

Tape::~Tape() {
  for (Slot* slot = owned_; slot != nullptr; slot = slot->next_owned) {
    release_value(*slot);
    release_grad(*slot);
  }
  workspace_.nodes.resize(first_node_);
  workspace_.arena.reset(mark_);
  workspace_.planned_statistics = statistics_before_;
}

void Tape::own(Slot& slot) {
  slot.next_owned = owned_;
  owned_ = &slot;
}

Var Tape::leaf(Tensor value, bool needs_grad) {
  Slot* slot = workspace_.arena.make<Slot>();
  slot->value = value;
  slot->needs_grad = needs_grad && recording();
  slot->module = module_;
  own(*slot);
  return Var(*slot);
}

Var Tape::make(std::initializer_list<std::int64_t> shape, Type type, bool needs_grad) {
  Var out = leaf(Tensor(nullptr, type, std::span(shape.begin(), shape.size())), needs_grad);
  Slot& slot = out.slot();
  allocate_value(slot);
  return out;
}

Var Tape::columns(Var x, std::int64_t begin, std::int64_t n) {
  Var part = leaf(x.value().columns(begin, n), x.needs_grad());
  Slot& slot = part.slot();
  QUERN_CHECK(x.slot().owner == nullptr, begin, n);
  slot.owner = &x.slot();
  slot.first_column = begin;
  slot.next_part = x.slot().parts;
  x.slot().parts = &slot;
  return part;
}

Var Tape::keep(Var x) {
  if (x && recording()) {
    x.slot().kept = true;
    if (x.slot().owner != nullptr) x.slot().owner->kept = true;
  }
  return x;
}

void Tape::consume(Var x) {
  if (!x || x.slot().parts != nullptr) return;
  if (!x.slot().kept || x.slot().refill != nullptr) release_value(x.slot());
}

const Tensor& Tape::value(Var x) {
  Slot& slot = x.slot();
  if (slot.value.data == nullptr && slot.refill != nullptr) {
    allocate_value(slot);
    if (!planning()) slot.refill(*this, slot.refill_closure);
  }
  return x.value();
}

Dropout Tape::dropout(std::uint64_t site, double rate, std::int64_t rows_per_sequence) const {
  if (mode_ != Mode::train || rate == 0) return {};
  return {RandomStream(random_.seed, site, random_.step), rate,
          random_.first_sequence * static_cast<std::uint64_t>(rows_per_sequence)};
}

float* Tape::statistics(std::int64_t n) {
  if (!planning()) return workspace_.arena.array<float>(static_cast<std::size_t>(n));
  workspace_.planned_statistics += n * static_cast<std::int64_t>(sizeof(float));
  workspace_.planned_statistics_peak =
      std::max(workspace_.planned_statistics_peak, workspace_.planned_statistics);
  return nullptr;
}

Running Tape::run(const char* name, const OpCost& cost) {
  cost_ = cost;
  return Running(!planning(), phase_, name, cost.forward, module_);
}

bool Tape::begin_node(const char* name, std::initializer_list<Var> inputs,
                      std::initializer_list<Var> outputs) {
  const bool needed =
      recording() && std::any_of(inputs.begin(), inputs.end(), [](Var x) { return x.needs_grad(); });
  for (const Var y : outputs)
    if (y) y.slot().needs_grad = needed;
  if (!needed) cost_ = {};
  // A part whose operations backward will record: a bad number in it is theirs, and not the part's.
  if (mode_ == Mode::train && !records_ && workspace_.inspect && !planning()) {
    Node node{};
    node.name = name;
    node.module = module_;
    node.outputs = workspace_.arena.array<Slot*>(outputs.size());
    for (const Var y : outputs)
      if (y) node.outputs[node.output_count++] = &y.slot();
    workspace_.inspect(node, Phase::forward);
  }
  return needed;
}

void Tape::push_node(const char* name, void (*call)(Tape&, const void*), const void* closure,
                     std::initializer_list<Var> inputs, std::initializer_list<Var> outputs, Runs runs) {
  Node node{name,
            call,
            closure,
            workspace_.arena.array<Slot*>(inputs.size()),
            0,
            workspace_.arena.array<Slot*>(outputs.size()),
            0,
            runs,
            std::exchange(cost_, {}),
            module_};
  for (const Var x : inputs) {
    if (!x) continue;
    x.slot().consumers++;
    node.inputs[node.input_count++] = &x.slot();
  }
  for (const Var y : outputs)
    if (y) node.outputs[node.output_count++] = &y.slot();
  workspace_.nodes.push_back(node);
  if (workspace_.inspect && !planning()) workspace_.inspect(node, Phase::forward);
}

void Tape::allocate_value(Slot& slot) {
  slot.value_block = workspace_.pool.allocate(static_cast<std::size_t>(slot.value.bytes()));
  slot.value.data = slot.value_block;
}

void Tape::allocate_grad(Slot& slot) {
  if (slot.grad) return;
  if (slot.owner != nullptr) {
    allocate_grad(*slot.owner);
    slot.grad = slot.owner->grad.columns(slot.first_column, slot.value.last());
    return;
  }
  slot.grad = slot.value;
  slot.grad.type = gradient_type(slot);
  std::int64_t step = 1;  // the gradient is contiguous, whatever the value is
  for (int i = slot.grad.rank - 1; i >= 0; --i) slot.grad.stride[i] = step, step *= slot.grad.dim[i];
  slot.grad_block = workspace_.pool.allocate(static_cast<std::size_t>(slot.grad.bytes()));
  slot.grad.data = slot.grad_block;
}

Sink Tape::sink(Var x) {
  if (!x.needs_grad()) return {};
  Slot& slot = x.slot();
  QUERN_CHECK(slot.parts == nullptr);  // an owner's gradient is what its parts wrote
  allocate_grad(slot);
  const float beta = slot.written ? 1.0F : 0.0F;
  slot.written = true;
  return {slot.grad, beta};
}

Sink Tape::hand_over(Var y, Var input) {
  if (!input.needs_grad()) return {};
  Slot &from = y.slot(), &to = input.slot();
  const bool fits = from.written && from.grad_block != nullptr && !to.grad && to.owner == nullptr &&
                    to.parts == nullptr && same_shape(from.value, to.value) &&
                    from.grad.type == gradient_type(to);
  if (!fits) return sink(input);
  to.grad = from.grad;
  to.grad_block = std::exchange(from.grad_block, nullptr);
  to.written = true;
  return {to.grad, 0};
}

Tensor Tape::grad(Var x) {
  Slot& slot = x.slot();
  if (slot.parts != nullptr) {
    std::int64_t covered = 0;
    for (Slot* part = slot.parts; part != nullptr; part = part->next_part) {
      slot.written |= part->written;
      covered += part->value.last();
    }
    if (!slot.written) return {};
    QUERN_CHECK(covered == slot.value.last(), covered, slot.value.last());  // parts tile their owner
    for (Slot* part = slot.parts; part != nullptr; part = part->next_part)
      if (!part->written && !planning()) fill(slot.grad.columns(part->first_column, part->value.last()), 0);
  }
  return slot.written ? slot.grad : Tensor();
}

Var Tape::hand_out(Var x, Var to) {
  if (!x) return {};
  Slot &from = x.slot(), &slot = to.slot();
  QUERN_CHECK(from.value_block != nullptr && from.parts == nullptr && !slot.value);  // not an input, a part
  slot.value = from.value;
  slot.value_block = std::exchange(from.value_block, nullptr);
  from.value.data = nullptr;
  slot.module = from.module;
  return to;
}

void Tape::move_gradient(Var from, Var to) {
  if (!from || !to || !from.needs_grad() || !grad(from)) return;
  Slot &source = from.slot(), &slot = to.slot();
  QUERN_CHECK(slot.owner == nullptr && source.owner == nullptr && !slot.written);
  slot.grad = std::exchange(source.grad, {});
  slot.grad_block = std::exchange(source.grad_block, nullptr);
  slot.written = std::exchange(source.written, false);
}

void Tape::seed(Var y, Tensor gradient) {
  const Sink to = sink(y);
  QUERN_CHECK(to && same_shape(to.to, gradient));
  add_scaled(to, gradient, 1);
}

/// The memory of a node's backward: inputs that are made again, the gradients, the scratch.
void Tape::plan_backward(const Node& node) {
  std::array<void*, std::tuple_size_v<decltype(node.cost.scratch)>> scratch{};
  for (std::size_t i = 0; i < scratch.size(); ++i)
    if (const std::int64_t bytes = node.cost.scratch[i]; bytes > 0)
      scratch[i] = workspace_.pool.allocate(static_cast<std::size_t>(bytes));
  for (int i = 0; i < node.input_count; ++i)
    if (node.inputs[i]->refill != nullptr) value(Var(*node.inputs[i]));
  for (int i = 0; i < node.input_count; ++i) {
    if (i == 0 && node.cost.hands_over) {
      hand_over(Var(*node.outputs[0]), Var(*node.inputs[0]));
    } else {
      sink(Var(*node.inputs[i]));
    }
  }
  for (void* block : scratch)
    if (block != nullptr) workspace_.pool.release(block);
}

void Tape::run_backward(const Node& node) {
  if (node.runs == Runs::operations) return node.backward(*this, node.closure);
  const ScopedSlice slice(Phase::backward, node.name, node.cost.backward, node.module);
  if (planning()) {
    plan_backward(node);
  } else {
    node.backward(*this, node.closure);
  }
}

void Tape::backward() {
  auto& nodes = workspace_.nodes;
  while (nodes.size() > first_node_) {
    const Node node = nodes.back();
    nodes.pop_back();
    bool reached = false;
    for (int i = 0; i < node.output_count; ++i) reached |= static_cast<bool>(grad(Var(*node.outputs[i])));
    if (reached) run_backward(node);
    if (reached && workspace_.inspect && !planning()) workspace_.inspect(node, Phase::backward);
    for (int i = 0; i < node.output_count; ++i) {
      release_value(*node.outputs[i]);
      release_grad(*node.outputs[i]);
    }
  }
}

void Tape::release_value(Slot& slot) {
  if (slot.value_block == nullptr) return;
  workspace_.pool.release(slot.value_block);
  slot.value_block = nullptr;
  slot.value.data = nullptr;
}

void Tape::release_grad(Slot& slot) {
  if (slot.grad_block == nullptr) return;
  workspace_.pool.release(slot.grad_block);
  slot.grad_block = nullptr;
  slot.grad = {};
  slot.written = false;
}

}  // namespace quern
