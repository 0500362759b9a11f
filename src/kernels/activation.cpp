#include "quern/kernels/activation.hpp"

#include "rows.hpp"

namespace quern {

using namespace kernels;

namespace {

Function function_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return Function::gelu;
    case Activation::gelu_erf: return Function::gelu_erf;
    case Activation::relu: return Function::relu;
  }
  QUERN_CHECK(false, static_cast<int>(activation));
}

}  // namespace

void activation_forward(Tensor y, Tensor pre, Activation activation) {
  QUERN_CHECK(y && pre);
  const std::int64_t rows = pre.rows(), cols = pre.last();
  QUERN_CHECK(y.type == pre.type);
  const Rows out = rows_of_any(y, rows, cols), in = rows_of_any(pre, rows, cols);
  const Function function = function_of(activation);
  for_stretches(rows, cols, y.contiguous() && pre.contiguous(),
                [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                  level().map({from_row(out, r), from_row(in, r), function}, begin, end);
                });
}

void activation_backward(Tensor dpre, Tensor y, Tensor dy, Tensor pre, Activation activation) {
  QUERN_CHECK(dpre && dy && pre);
  const std::int64_t rows = pre.rows(), cols = pre.last();
  QUERN_CHECK(dpre.type == pre.type && dy.type == pre.type && (!y || y.type == pre.type));
  const Rows dx = rows_of_any(dpre, rows, cols), out = rows_of_any(y, rows, cols);
  const Rows grad = rows_of_any(dy, rows, cols), in = rows_of_any(pre, rows, cols);
  const Function function = function_of(activation);
  const bool contiguous = dpre.contiguous() && dy.contiguous() && pre.contiguous() && (!y || y.contiguous());
  for_stretches(rows, cols, contiguous, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    level().map_backward({from_row(dx, r), from_row(out, r), from_row(grad, r), from_row(in, r), function},
                         begin, end);
  });
}

}  // namespace quern
