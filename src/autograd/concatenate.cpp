#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"

namespace quern {

Var concatenate(Tape& tape, Var a, Var b) {
  const std::int64_t M = a.dim(2), N = b.dim(2);
  QUERN_CHECK(a.shape().rank == 3 && b.shape().rank == 3 && a.dim(0) == b.dim(0) && a.dim(1) == b.dim(1) &&
                  a.shape().type == b.shape().type,
              a.dim(0), b.dim(0), a.dim(1), b.dim(1));
  const Var y = tape.make({a.dim(0), a.dim(1), M + N}, a.shape().type);  // (B,T,M+N)
  const double bytes = static_cast<double>(y.shape().bytes());
  if (const Running run = tape.run("concatenate", {{0, 2 * bytes}, {0, 2 * bytes}})) {
    convert({y.value().columns(0, M), 0}, a.value());
    convert({y.value().columns(M, N), 0}, b.value());
  }
  tape.record("concatenate", {a, b}, {y}, [a, b, y, M, N](Tape& t) {
    const Tensor dy = t.grad(y);
    convert(t.sink(a), dy.columns(0, M));
    convert(t.sink(b), dy.columns(M, N));
  });
  return y;
}

}  // namespace quern
