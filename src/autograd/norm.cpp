#include "quern/kernels/norm.hpp"

#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

/// Forward reads the stream and the branch and writes their sum and the normalised rows; backward reads the
/// gradients of both outputs and the sum, and writes those of both inputs. Without a branch the sum is the
/// stream.  (R,C) each
OpCost residual_norm_cost(const Tensor& stream, const Tensor& branch, Type h) {
  const double rows = static_cast<double>(stream.size());
  const double wide = 4 * rows, normed = static_cast<double>(size_of(h)) * rows;
  const double added = branch ? static_cast<double>(branch.bytes()) : 0;
  return {{0, (branch ? 2 : 1) * wide + added + normed},
          {0, 3 * wide + normed + added},
          {bytes_of_floats(residual_norm_backward_scratch(stream.rows(), stream.last()))},
          static_cast<bool>(branch)};
}

}  // namespace

ResidualNorm residual_norm(Tape& tape, Var stream, Var branch, NormKind kind, Var gain, Var bias, float eps,
                           DropoutSite dropout, Type type) {
  const Tensor& s = stream.value();
  QUERN_CHECK(s.rank == 3 && (!branch || same_shape(s, branch.shape())) && gain.shape().size() == s.last(),
              s.rank);
  const std::int64_t R = s.rows();
  const Dropout mask = tape.dropout(dropout.site, dropout.rate, s.dim[1]);
  const Var x = branch ? tape.make({s.dim[0], s.dim[1], s.dim[2]}) : stream;  // (B,T,C)
  const Var h = tape.make({s.dim[0], s.dim[1], s.dim[2]}, type);              // (B,T,C)
  float* mean = kind == NormKind::layernorm ? tape.statistics(R) : nullptr;   // (R)
  float* rstd = tape.statistics(R);                                           // (R)
  if (const Running run = tape.run("residual_norm", residual_norm_cost(s, branch.value_or_empty(), type)))
    residual_norm_forward(x.value(), h.value(), mean, rstd, s, branch.value_or_empty(), gain.floats(),
                          bias.floats(), eps, mask, kind);
  // In backward the normalised rows come back from the stream: one pass instead of (B,T,C) kept.
  tape.refillable(h, [x, h, gain, bias, mean, rstd, eps, kind](Tape&) {
    residual_norm_forward({}, h.value(), mean, rstd, x.value(), {}, gain.floats(), bias.floats(), eps, {},
                          kind);
  });
  const auto scratch_size = residual_norm_backward_scratch(R, s.last());
  if (!branch) {
    tape.record("residual_norm", {stream, gain, bias}, {h},
                [x = tape.keep(x), h, gain, bias, mean, rstd, mask, scratch_size, kind](Tape& t) {
                  const Scratch scratch(t, scratch_size);
                  residual_norm_backward(t.sink(x), {}, t.sink(gain), t.sink(bias), {}, t.grad(h), x.value(),
                                         mean, rstd, gain.floats(), mask, scratch.span(), kind);
                });
    return {x, h};
  }
  tape.record(
      "residual_norm", {stream, branch, gain, bias}, {x, h},
      [x = tape.keep(x), h, stream, branch, gain, bias, mean, rstd, mask, scratch_size, kind](Tape& t) {
        const Scratch scratch(t, scratch_size);
        const Tensor dx = t.grad(x), dh = t.grad(h);
        const Sink dstream = t.hand_over(x, stream), dbranch = t.sink(branch);
        residual_norm_backward(dstream, dbranch, t.sink(gain), t.sink(bias), dx, dh, x.value(), mean, rstd,
                               gain.floats(), mask, scratch.span(), kind);
      });
  tape.consume(branch);
  return {x, h};
}

}  // namespace quern
