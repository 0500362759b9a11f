#include "quern/kernels/activation.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

namespace {

/// The function of one number; a gated activation's is its gate's.
Function function_of(Activation activation) {
  switch (activation) {
    case Activation::geglu:
    case Activation::gelu: return Function::gelu;
    case Activation::gelu_erf: return Function::gelu_erf;
    case Activation::relu: return Function::relu;
    case Activation::relu2: return Function::relu2;
    case Activation::swiglu:
    case Activation::silu: return Function::silu;
  }
  QUERN_CHECK(false, static_cast<int>(activation));
}

/// The gate (or the only input) and the value it lets through (or none) as rows of `cols` numbers.
struct Parts {
  Rows gate, value;

  Parts(const Tensor& pre, Activation activation, std::int64_t rows, std::int64_t cols)
      : gate(rows_of_any(is_gated(activation) ? pre.columns(0, cols) : pre, rows, cols)),
        value(rows_of_any(is_gated(activation) ? pre.columns(cols, cols) : Tensor(), rows, cols)) {}
};

}  // namespace

void activation_forward(Tensor y, Tensor pre, Activation activation) {
  QUERN_CHECK(y && pre);
  const std::int64_t rows = y.rows(), cols = y.last();
  QUERN_CHECK(y.type == pre.type && pre.last() == (is_gated(activation) ? 2 : 1) * cols, pre.last(), cols);
  const Rows out = rows_of_any(y, rows, cols);
  const Parts in(pre, activation, rows, cols);
  const Function function = function_of(activation);
  for_stretches(
      rows, cols, !is_gated(activation) && y.contiguous() && pre.contiguous(),
      [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
        level().map({from_row(out, r), from_row(in.gate, r), from_row(in.value, r), function}, begin, end);
      });
}

void activation_backward(Tensor dpre, Tensor y, Tensor dy, Tensor pre, Activation activation) {
  QUERN_CHECK(dpre && dy && pre);
  const std::int64_t rows = dy.rows(), cols = dy.last();
  QUERN_CHECK(dpre.type == pre.type && dy.type == pre.type && (!y || y.type == pre.type));
  QUERN_CHECK(same_shape(dpre, pre) && pre.last() == (is_gated(activation) ? 2 : 1) * cols, pre.last(), cols);
  const Rows out = rows_of_any(y, rows, cols), grad = rows_of_any(dy, rows, cols);
  const Parts to(dpre, activation, rows, cols), in(pre, activation, rows, cols);
  const Function function = function_of(activation);
  const bool contiguous = !is_gated(activation) && dpre.contiguous() && dy.contiguous() && pre.contiguous() &&
                          (!y || y.contiguous());
  for_stretches(rows, cols, contiguous, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    level().map_backward({from_row(to.gate, r), from_row(to.value, r), from_row(out, r), from_row(grad, r),
                          from_row(in.gate, r), from_row(in.value, r), function},
                         begin, end);
  });
}

void tanh_forward(Tensor y, Tensor x) {
  QUERN_CHECK(y && x && y.type == x.type);
  const std::int64_t rows = y.rows(), cols = y.last();
  const Rows out = rows_of_any(y, rows, cols), in = rows_of_any(x, rows, cols);
  for_stretches(rows, cols, y.contiguous() && x.contiguous(),
                [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                  level().map({from_row(out, r), from_row(in, r), {}, Function::tanh}, begin, end);
                });
}

void tanh_backward(Sink dx, Tensor dy, Tensor y) {
  if (!dx) return;
  QUERN_CHECK(dy && y && dy.type == y.type);
  const std::int64_t rows = y.rows(), cols = y.last();
  const Rows to = rows_of_any(dx.to, rows, cols), grad = rows_of_any(dy, rows, cols),
             out = rows_of_any(y, rows, cols);
  for_stretches(
      rows, cols, dx.to.contiguous() && dy.contiguous() && y.contiguous(),
      [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
        level().tanh_backward({from_row(to, r), from_row(grad, r), from_row(out, r), dx.beta}, begin, end);
      });
}

}  // namespace quern
