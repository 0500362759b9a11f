#include "quern/kernels/recurrent.hpp"

#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

/// A product a step, which reads the weights again each time, and a pass over x, p and the state; what is
/// saved is written once and read once. Backward has two products: that of all steps reads what one a step
/// has made.  gates (B,T,G*C), out (B,T,C)
OpCost recurrent_cost(const Tensor& gates, const Tensor& out, const Tensor& w_hidden, double saved,
                      Cell cell) {
  const double product = 2 * static_cast<double>(gates.rows() * w_hidden.size());
  const double weights = static_cast<double>(gates.dim[1] * w_hidden.bytes());
  const double x = static_cast<double>(gates.bytes()), y = static_cast<double>(out.bytes()),
               p = 4 * static_cast<double>(gates.size());
  const double dp = cell == Cell::gru ? 2 * x : x;  // dx and dp
  return {{product, weights + x + 2 * p + y + saved},
          {2 * product, weights + saved + 2 * y + 2 * dp + x},
          {bytes_of_floats(recurrent_backward_scratch(out, cell))}};
}

}  // namespace

Var recurrent(Tape& tape, Var gates, Var w_hidden, Var b_hidden, Cell cell, const RecurrentOptions& options) {
  const std::int64_t G = gate_count(cell), B = gates.dim(0), T = gates.dim(1), C = gates.dim(2) / G;
  QUERN_CHECK(gates.shape().rank == 3 && gates.dim(2) == G * C && b_hidden.shape().size() == G * C,
              gates.shape().rank, gates.dim(2), G);
  QUERN_CHECK(options.state.numbers == nullptr || !tape.recording());
  const Type type = gates.shape().type;
  const Var out = tape.make({B, T, C}, type);  // (B,T,C)
  const bool saves = tape.recording(), has_cells = saves && cell == Cell::lstm;
  const Var activated = saves ? tape.make({B, T, 4 * C}, type) : Var();   // (B,T,4C)
  const Var cells = has_cells ? tape.make({B, T, C}, Type::f32) : Var();  // (B,T,C)
  const double saved =
      static_cast<double>((saves ? activated.shape().bytes() : 0) + (has_cells ? cells.shape().bytes() : 0));
  const Scratch scratch(tape, recurrent_forward_scratch(out.shape(), cell));
  if (const Running run =
          tape.run("recurrent", recurrent_cost(gates.shape(), out.shape(), w_hidden.operand(), saved, cell)))
    recurrent_forward(out.value(), {activated.value_or_empty(), cells.value_or_empty()}, gates.value(),
                      w_hidden.operand(), b_hidden.floats(), cell, options, scratch.span());
  tape.record("recurrent", {gates, w_hidden, b_hidden}, {out, activated, cells},
              [gates, w_hidden, b_hidden, out = tape.keep(out), activated = tape.keep(activated),
               cells = tape.keep(cells), cell, options](Tape& t) {
                const Scratch room(t, recurrent_backward_scratch(out.shape(), cell));
                const Sink dgates = t.sink(gates), dw = t.sink(w_hidden), db = t.sink(b_hidden);
                recurrent_backward(dgates, dw, db, t.grad(out), out.value(),
                                   {activated.value(), cells.value_or_empty()}, w_hidden.operand(), cell,
                                   options, room.span());
              });
  return out;
}

}  // namespace quern
