#include "quern/kernels/rotary.hpp"

#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

/// One pass: forward reads x and writes y, backward reads dy and writes dx; with a gain it reads x too. The
/// table of angles counts where it is read.  x (B,T,H*D), table (T,D)
OpCost rotary_cost(const Tensor& x, const Tensor& table, bool gain, std::int64_t heads) {
  const double heads_bytes = static_cast<double>(x.bytes()),
               angles = table ? static_cast<double>(table.bytes()) : 0;
  return {{0, 2 * heads_bytes + angles},
          {0, (gain ? 3 : 2) * heads_bytes + angles},
          {bytes_of_floats(rotary_backward_scratch(x.rows(), x.last(), x.last() / heads))}};
}

}  // namespace

Var rotary_positions(Tape& tape, std::int64_t first_position, std::int64_t length, std::int64_t width,
                     double theta) {
  const Var table = tape.make({length, width}, Type::f32, false);  // (T,D)
  if (const Running run = tape.run("rotary_positions", {{0, static_cast<double>(table.shape().bytes())}}))
    rotary_table(table.value(), first_position, theta);
  return table;
}

Var rotary(Tape& tape, Var x, std::int64_t heads, Var table, Var gain, float eps) {
  QUERN_CHECK(x.shape().rank == 3 && (table || gain), x.shape().rank);
  const std::int64_t B = x.dim(0), T = x.dim(1), D = x.dim(2) / heads;
  QUERN_CHECK(!gain || gain.shape().size() == D, D);
  const Var y = tape.make({B, T, x.dim(2)}, x.shape().type);      // (B,T,H*D)
  float* rstd = gain ? tape.statistics(B * T * heads) : nullptr;  // (B,T,H)
  const auto forward = [x = tape.keep(x), y, heads, table = tape.keep(table), gain, rstd, eps](Tape&) {
    rotary_forward(y.value(), x.value(), table.value_or_empty(), gain.floats(), rstd, eps, heads);
  };
  if (const Running run =
          tape.run("rotary", rotary_cost(x.shape(), table.value_or_empty(), static_cast<bool>(gain), heads)))
    forward(tape);
  // In backward the turned heads come back from the projection: one pass instead of (B,T,H*D) kept.
  tape.refillable(y, forward);
  tape.record("rotary", {x, gain}, {y}, [x, y, heads, table, gain, rstd](Tape& t) {
    const Tensor dy = t.grad(y);
    const Scratch scratch(t, rotary_backward_scratch(dy.rows(), dy.last(), dy.last() / heads));
    rotary_backward(t.sink(x), t.sink(gain), dy, x.value(), table.value_or_empty(), gain.floats(), rstd,
                    heads, scratch.span());
  });
  return y;
}

}  // namespace quern
