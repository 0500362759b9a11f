#include "quern/kernels/dropout.hpp"

#include "quern/autograd/ops.hpp"

namespace quern {

Var dropout(Tape& tape, Var x, DropoutSite dropout) {
  QUERN_CHECK(x.shape().rank == 3, x.shape().rank);
  const Dropout mask = tape.dropout(dropout.site, dropout.rate, x.dim(1));
  if (!mask) return x;
  const Var y = tape.make({x.dim(0), x.dim(1), x.dim(2)}, x.shape().type);  // (B,T,C)
  const double bytes = 2 * static_cast<double>(x.shape().bytes());
  if (const Running run = tape.run("dropout", {{0, bytes}, {0, bytes}}))
    drop({y.value(), 0}, x.value(), mask);
  tape.record("dropout", {x}, {y}, [x, y, mask](Tape& t) { drop(t.sink(x), t.grad(y), mask); });
  return y;
}

}  // namespace quern
