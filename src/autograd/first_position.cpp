#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"

namespace quern {
Var first_position(Tape& tape, Var x) {
  QUERN_CHECK(x.shape().rank == 3, x.shape().rank);
  const Var y = tape.make({x.dim(0), x.dim(2)}, x.shape().type);  // (B,C)
  const double read = static_cast<double>(y.shape().bytes()), whole = static_cast<double>(x.shape().bytes());
  if (const Running run = tape.run("first_position", {{0, 2 * read}, {0, whole + 2 * read}}))
    convert({y.value(), 0}, x.value().step(0));
  tape.record("first_position", {x}, {y}, [x, y](Tape& t) {
    const Sink dx = t.sink(x);
    if (dx.beta == 0) fill(dx.to, 0);
    convert({dx.to.step(0), 1}, t.grad(y));
  });
  return y;
}

}  // namespace quern
