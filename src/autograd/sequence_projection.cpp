#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern {
namespace {

/// The sequences of a (B,S,C) tensor as matrices (S,C), those with padding as copies where it is 0, so that
/// every product has the same shape.
class Sequences {
 public:
  Sequences(Tape& tape, const Tensor& x, const std::int32_t* lengths)
      : x_(x), lengths_(lengths), copy_(tape, one(x)) {}

  Mat operator[](std::int64_t b) const {
    const Mat rows = x_.mat().row_range(b * x_.dim[1], x_.dim[1]);
    if (!padded(b)) return rows;
    Tensor real = x_;
    real.data = rows.data;
    copy(real, lengths_[b]);
    return copy_.tensor().mat();
  }
  bool padded(std::int64_t b) const { return lengths_ != nullptr && lengths_[b] < x_.dim[1]; }
  std::int64_t length(std::int64_t b) const { return lengths_ != nullptr ? lengths_[b] : x_.dim[1]; }

  /// The shape of one sequence, contiguous.
  static Tensor one(const Tensor& x) {
    const std::int64_t shape[] = {x.dim[1], x.dim[2]};
    return Tensor(nullptr, x.type, shape);
  }

 private:
  void copy(Tensor from, std::int64_t n) const {
    const auto rows = [](Tensor t, std::int64_t first, std::int64_t count) {
      t.data = t.at(first * t.stride[0]);
      t.dim[0] = count;
      return t;
    };
    from.rank = 2;
    from.dim[1] = x_.dim[2], from.stride[0] = x_.stride[1], from.stride[1] = x_.stride[2];
    const Tensor& to = copy_.tensor();
    if (n > 0) convert({rows(to, 0, n), 0}, rows(from, 0, n));
    fill(rows(to, n, to.dim[0] - n), 0);
  }

  Tensor x_;
  const std::int32_t* lengths_;
  Scratch copy_;
};

/// The first S columns of e (R,P).
Mat first_columns(const Tensor& e, std::int64_t S) { return e.columns(0, S).mat(); }

/// Sequence b of the result (B,R,C).
Mat of(const Tensor& y, std::int64_t b) { return y.mat().row_range(b * y.dim[1], y.dim[1]); }

/// dx(b) = e(:, :S)ᵀ dy(b), 0 where there is padding.
void input_gradient(Tape& tape, Sink dx, const Tensor& dy, const Mat& e, const Sequences& x) {
  if (!dx) return;
  const Scratch scratch(tape, Sequences::one(dx.to));
  const Tensor whole = scratch.tensor();  // (S,C)
  for (std::int64_t b = 0; b < dy.dim[0]; ++b) {
    const Mat to = dx.to.mat().row_range(b * dx.to.dim[1], dx.to.dim[1]);
    if (!x.padded(b)) {
      gemm(to, e.t(), of(dy, b), {.beta = dx.beta});
      continue;
    }
    gemm(whole.mat(), e.t(), of(dy, b));
    Tensor rest = whole, sink = whole;
    rest.data = rest.at(x.length(b) * rest.stride[0]);
    rest.dim[0] -= x.length(b);
    fill(rest, 0);
    sink.data = to.data, sink.type = to.type, sink.stride[0] = to.row_stride;
    convert({sink, dx.beta}, whole);
  }
}

}  // namespace

Var sequence_projection(Tape& tape, Var x, Var e, const std::int32_t* lengths) {
  const std::int64_t B = x.dim(0), S = x.dim(1), C = x.dim(2), R = e.dim(0);
  QUERN_CHECK(x.shape().rank == 3 && e.shape().rank == 2 && S <= e.dim(1), x.shape().rank, S, e.dim(1));
  const Var y = tape.make({B, R, C}, x.shape().type);  // (B,R,C)
  const double flops = 2 * static_cast<double>(B * R * S) * static_cast<double>(C);
  const double bytes = static_cast<double>(x.shape().bytes() + y.shape().bytes() + e.shape().bytes());
  const std::int64_t one = Sequences::one(x.shape()).bytes();
  if (const Running run =
          tape.run("sequence_projection", {{flops, bytes}, {2 * flops, 2 * bytes}, {one, 2 * one}})) {
    const Sequences sequences(tape, x.value(), lengths);
    for (std::int64_t b = 0; b < B; ++b) gemm(of(y.value(), b), first_columns(e.operand(), S), sequences[b]);
  }
  tape.record("sequence_projection", {x, e}, {y}, [x = tape.keep(x), e, y, lengths, S](Tape& t) {
    const Tensor dy = t.grad(y);
    const Sequences sequences(t, t.value(x), lengths);
    if (const Sink de = t.sink(e)) {
      if (de.beta == 0) fill(de.to, 0);
      for (std::int64_t b = 0; b < dy.dim[0]; ++b)
        gemm(first_columns(de.to, S), of(dy, b), sequences[b].t(), {.beta = 1});
    }
    input_gradient(t, t.sink(x), dy, first_columns(e.operand(), S), sequences);
  });
  return y;
}

}  // namespace quern
