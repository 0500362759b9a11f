#include "quern/autograd/ops.hpp"
#include "quern/kernels/activation.hpp"

namespace quern {

Var tanh(Tape& tape, Var x) {
  const Type type = x.shape().type;
  const Var y = x.shape().rank == 2 ? tape.make({x.dim(0), x.dim(1)}, type)
                                    : tape.make({x.dim(0), x.dim(1), x.dim(2)}, type);  // (…,C)
  const double bytes = static_cast<double>(x.shape().bytes());
  if (const Running run = tape.run("tanh", {{0, 2 * bytes}, {0, 3 * bytes}}))
    tanh_forward(y.value(), x.value());
  tape.record("tanh", {x}, {y},
              [x, y = tape.keep(y)](Tape& t) { tanh_backward(t.sink(x), t.grad(y), t.value(y)); });
  return y;
}

}  // namespace quern
