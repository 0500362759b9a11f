// Gradient checkpointing (Chen et al. 2016, 1604.06174): of a part of forward only its inputs and outputs
// stay in memory; backward runs the part again, on a tape of its own, and goes back through that. One more
// forward pass buys the memory of what the part would have saved. Randomness is a function of where it is
// used, so the second run makes the same numbers, dropout included, and the gradients have the same bits.
#pragma once

#include <array>

#include "quern/autograd/tape.hpp"

namespace quern {

using RecomputeInputs = std::array<Var, 3>;   // the rest may be none
using RecomputeOutputs = std::array<Var, 2>;  // likewise

/// f(tape, inputs), which gives outputs: made again in backward when the tape wants that for this `part` of
/// the model, else run as it is. f must be trivially copyable; it may capture what outlives the tape,
/// parameters and variables that take no gradient. Other variables come as inputs: on a tape of its own f
/// sees stand-ins for them. An output may not be an input.
template <class F>
RecomputeOutputs recompute(Tape& tape, Recompute part, const RecomputeInputs& inputs, const F& f) {
  if (!tape.recording() || tape.recompute() != part) return f(tape, inputs);
  RecomputeOutputs outputs = {tape.leaf({}, true), tape.leaf({}, true)};
  {
    Tape inner(tape, false);
    const RecomputeOutputs made = f(inner, inner.stand_ins(inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = inner.hand_out(made[i], outputs[i]);
  }
  for (const Var x : inputs) tape.keep(x);
  const auto [x0, x1, x2] = inputs;
  tape.record(
      "recompute", {x0, x1, x2}, {outputs[0], outputs[1]},
      [f, inputs, outputs](Tape& outer) {
        Tape inner(outer, true);
        const RecomputeInputs stand_ins = inner.stand_ins(inputs);
        const RecomputeOutputs made = f(inner, stand_ins);
        for (std::size_t i = 0; i < made.size(); ++i) inner.move_gradient(outputs[i], made[i]);
        for (std::size_t i = 0; i < inputs.size(); ++i) inner.move_gradient(inputs[i], stand_ins[i]);
        inner.backward();
        for (std::size_t i = 0; i < inputs.size(); ++i) inner.move_gradient(stand_ins[i], inputs[i]);
      },
      Runs::operations);
  return outputs;
}

}  // namespace quern
