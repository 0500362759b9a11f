#pragma once

#include <string_view>

#include "quern/kernels/tensor.hpp"

namespace quern {

class Tape;

/// What a variable stands on: its value, its gradient, and how far the gradient is. A slot may be a part (a
/// range of columns) of another slot's buffer: q, k and v over the packed projection.
struct Slot {
  Tensor value;
  Tensor shadow;                // a parameter's value in bf16, for products; empty in f32
  Tensor grad;                  // empty until somebody writes it; a parameter's is the store's from the start
  void* value_block = nullptr;  // the pool's block, when the tape owns it
  void* grad_block = nullptr;
  Slot* owner = nullptr;  // the slot whose buffer this is a part of
  Slot* parts = nullptr;  // an owner's parts, a chain through next_part
  Slot* next_part = nullptr;
  Slot* next_owned = nullptr;  // the tape's chain of slots with blocks
  std::int64_t first_column = 0;
  int consumers = 0;  // nodes that take this slot as an input
  bool needs_grad = false;
  bool written = false;  // grad holds a number; an unwritten gradient is an exact zero
  bool kept = false;     // a closure captured the value
  void (*refill)(Tape&, const void* closure) = nullptr;  // makes a value again that was consumed
  const void* refill_closure = nullptr;
  std::string_view module;  // the path of whose it is
};

/// A variable of the computation: a trivially copyable handle. A default Var stands for "none" (no bias, no
/// branch).
class Var {
 public:
  Var() = default;
  explicit Var(Slot& slot) : slot_(&slot) {}

  explicit operator bool() const { return slot_ != nullptr; }
  bool operator==(const Var&) const = default;

  /// The numbers. A bug when they were consumed (see Tape::consume) or passed by backward.
  const Tensor& value() const {
    QUERN_CHECK(slot_ != nullptr && slot_->value.data != nullptr);
    return slot_->value;
  }
  /// The value, or an empty tensor for "none".
  Tensor value_or_empty() const { return slot_ != nullptr ? value() : Tensor(); }
  /// The numbers as products take them: a parameter's bf16 shadow when there is one, else the value.
  const Tensor& operand() const { return slot_->shadow ? slot_->shadow : value(); }
  /// The numbers as floats, or null for "none": gains and biases.
  const float* floats() const { return slot_ != nullptr ? value().f32() : nullptr; }

  /// The shape stays readable after the value is gone.
  const Tensor& shape() const { return slot_->value; }
  std::int64_t dim(int axis) const { return slot_->value.dim[axis]; }
  bool needs_grad() const { return slot_ != nullptr && slot_->needs_grad; }
  Slot& slot() const { return *slot_; }

 private:
  Slot* slot_ = nullptr;
};

}  // namespace quern
