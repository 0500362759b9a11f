#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"

namespace quern {
namespace {

/// The first row of each sequence of a contiguous (B,T,C), as (B,C).
Tensor first_rows(const Tensor& x) {
  Tensor rows = x;
  rows.rank = 2;
  rows.dim[1] = x.dim[2];
  rows.stride[1] = x.stride[2];
  return rows;
}

}  // namespace

Var first_position(Tape& tape, Var x) {
  QUERN_CHECK(x.shape().rank == 3, x.shape().rank);
  const Var y = tape.make({x.dim(0), x.dim(2)}, x.shape().type);  // (B,C)
  const double read = static_cast<double>(y.shape().bytes()), whole = static_cast<double>(x.shape().bytes());
  if (const Running run = tape.run("first_position", {{0, 2 * read}, {0, whole + 2 * read}}))
    convert({y.value(), 0}, first_rows(x.value()));
  tape.record("first_position", {x}, {y}, [x, y](Tape& t) {
    const Sink dx = t.sink(x);
    if (!dx) return;
    if (dx.beta == 0) fill(dx.to, 0);
    convert({first_rows(dx.to), 1}, t.grad(y));
  });
  return y;
}

}  // namespace quern
