#include <algorithm>
#include <optional>

#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/kernels/reduce.hpp"

namespace quern {
namespace {

/// A fresh variable of x's leading axes and a last axis of n.
Var like(Tape& tape, const Tensor& x, std::int64_t n, Type type) {
  switch (x.rank) {
    case 1: return tape.make({n}, type);
    case 2: return tape.make({x.dim[0], n}, type);
    default: QUERN_CHECK(x.rank == 3, x.rank); return tape.make({x.dim[0], x.dim[1], n}, type);
  }
}

/// The arithmetic and the traffic of c (m,n) = a (m,k) · b (k,n), operands of one type.
Cost product(std::int64_t m, std::int64_t n, std::int64_t k, Type operands, Type c) {
  const double M = static_cast<double>(m), N = static_cast<double>(n), K = static_cast<double>(k);
  return {2 * M * N * K,
          (M * K + K * N) * static_cast<double>(size_of(operands)) + M * N * static_cast<double>(size_of(c))};
}

std::int64_t bias_scratch_bytes(Var b, std::int64_t rows) {
  return b ? bytes_of_floats(column_sum_scratch(rows, b.shape().size())) : 0;
}

/// y = x Wᵀ; dW and dx.  x (R,K), w (N,K)
OpCost product_cost(const Tensor& x, std::int64_t N, Type type, Type y) {
  const std::int64_t R = x.rows(), K = x.last();
  return {product(R, N, K, type, y), product(N, K, R, type, Type::f32) + product(R, K, N, type, x.type)};
}

/// The columns of memory for rows of so many: where rows lie a multiple of 512 bytes apart they meet in a few
/// sets of the caches, and a product that reads down their columns may take twice its time (tools/LOG.md), so
/// these get a cache line more.
std::int64_t spaced(std::int64_t cols, Type type) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  return cols * size % 512 == 0 ? cols + 64 / size : cols;
}

/// Whether f'(x) is f'(f(x)), so that the hidden layer may take the pre-activation's place.
constexpr bool slope_shows_in_result(Activation activation) { return activation == Activation::relu; }

/// Two products, and the activation between them: forward reads the pre-activation and writes the hidden
/// layer, backward reads the pre-activation and dh and writes dpre and, but for `in_place`, the hidden layer
/// again.  x (R,C), pre (R,F) or with a gate (R,2F), hidden (R,F)
OpCost feed_forward_cost(const Tensor& x, const Tensor& pre, const Tensor& hidden, Var w1, Var w2,
                         bool in_place) {
  const OpCost up = product_cost(x, w1.dim(0), pre.type, pre.type),
               down = product_cost(hidden, w2.dim(0), pre.type, pre.type);
  const double wide = static_cast<double>(pre.bytes()), narrow = static_cast<double>(hidden.bytes());
  return {up.forward + Cost{0, wide + narrow} + down.forward,
          up.backward + Cost{0, 2 * wide + (in_place ? 1 : 2) * narrow} + down.backward};
}

/// The rows [rows.first, rows.first + rows.count) of a gradient (N,…). Where nobody has written yet, the
/// other rows become 0.
Sink part(Sink sink, RowRange rows) {
  if (!sink || rows.count == sink.to.dim[0]) return sink;
  if (sink.beta == 0) fill(sink.to, 0);
  sink.to.data = sink.to.at(rows.first * sink.to.stride[0]);
  sink.to.dim[0] = rows.count;
  return {sink.to, 1};
}

void bias_gradient(Tape& tape, Var b, Tensor dy, RowRange rows) {
  const Sink db = part(tape.sink(b), rows);
  if (!db) return;
  const Scratch scratch(tape, column_sum_scratch(dy.rows(), dy.last()));
  column_sum(db, dy, scratch.span());
}

/// All rows of w.
RowRange all_of(Var w) { return {0, w.dim(0)}; }

void check_shapes(Var x, Var w, Var b) {
  QUERN_CHECK(w.shape().rank == 2 && x.shape().last() == w.dim(1), x.shape().last(), w.dim(0), w.dim(1));
  QUERN_CHECK(!b || b.shape().size() == w.dim(0));
}

/// dW = dyᵀ x and dx = dy W.
void product_gradients(Tape& tape, Var x, Var w, Tensor dy, RowRange rows) {
  if (const Sink dw = part(tape.sink(w), rows))
    gemm(dw.to.mat(), dy.mat().t(), tape.value(x).mat(), {.beta = dw.beta});
  if (const Sink dx = tape.sink(x))
    gemm(dx.to.mat(), dy.mat(), w.operand().mat().row_range(rows.first, rows.count), {.beta = dx.beta});
}

}  // namespace

Var linear(Tape& tape, Var x, Var w, Var b, std::optional<Type> type, RowRange rows) {
  check_shapes(x, w, b);
  if (rows.count == 0) rows = all_of(w);
  const Var y = like(tape, x.shape(), rows.count, type.value_or(w.operand().type));
  OpCost cost = product_cost(x.shape(), rows.count, w.operand().type, y.shape().type);
  cost.scratch = {bias_scratch_bytes(b, x.shape().rows())};
  if (const Running run = tape.run("linear", cost))
    gemm(y.value().mat(), x.value().mat(), w.operand().mat().row_range(rows.first, rows.count).t(),
         {.bias = b ? b.floats() + rows.first : nullptr});
  tape.record("linear", {x, w, b}, {y}, [x = tape.keep(x), w, b, y, rows](Tape& t) {
    const Tensor dy = t.grad(y);
    bias_gradient(t, b, dy, rows);
    product_gradients(t, x, w, dy, rows);
  });
  return y;
}

Var feed_forward(Tape& tape, Var x, Var w1, Var b1, Var w2, Var b2, Activation activation) {
  check_shapes(x, w1, b1);
  const std::int64_t F = w2.dim(1);
  QUERN_CHECK(w2.shape().rank == 2 && w1.dim(0) == (is_gated(activation) ? 2 : 1) * F &&
                  (!b2 || b2.shape().size() == w2.dim(0)),
              w1.dim(0), F);
  const Type type = w1.operand().type;
  const std::int64_t N = w1.dim(0);                              // F, or with a gate 2F
  const Var pre = like(tape, x.shape(), spaced(N, type), type);  // (…,N) and what spaces the rows
  const Var y = like(tape, x.shape(), w2.dim(0), type);
  Tensor hidden_shape = pre.shape();
  hidden_shape.dim[hidden_shape.rank - 1] = spaced(F, type);
  std::optional<Scratch> hidden_block;
  if (!slope_shows_in_result(activation)) hidden_block.emplace(tape, hidden_shape);
  OpCost cost = feed_forward_cost(x.shape(), pre.shape().columns(0, N), hidden_shape.columns(0, F), w1, w2,
                                  !hidden_block);
  cost.scratch = {
      pre.shape().bytes(), hidden_block ? hidden_shape.bytes() : 0,
      std::max(bias_scratch_bytes(b1, hidden_shape.rows()), bias_scratch_bytes(b2, hidden_shape.rows()))};
  if (const Running run = tape.run("feed_forward", cost)) {
    const Tensor before = pre.value().columns(0, N);
    const Tensor hidden = hidden_block ? hidden_block->tensor().columns(0, F) : before;  // (…,F)
    gemm(before.mat(), x.value().mat(), w1.operand().mat().t(), {.bias = b1.floats()});
    activation_forward(hidden, before, activation);
    gemm(y.value().mat(), hidden.mat(), w2.operand().mat().t(), {.bias = b2.floats()});
  }
  tape.record("feed_forward", {x, w1, b1, w2, b2}, {y},
              [x = tape.keep(x), pre = tape.keep(pre), w1, b1, w2, b2, y, activation, hidden_shape](Tape& t) {
                const Tensor dy = t.grad(y), kept = pre.value().columns(0, w1.dim(0));
                const Scratch gradient(t, pre.shape());
                std::optional<Scratch> again;
                if (!slope_shows_in_result(activation)) again.emplace(t, hidden_shape);
                const Tensor dpre = gradient.tensor().columns(0, w1.dim(0)),
                             hidden = again ? again->tensor().columns(0, w2.dim(1)) : kept;
                // dhidden becomes dpre in place; with a gate, whose dpre is wider, the hidden layer does.
                const Tensor dhidden = is_gated(activation) ? hidden : dpre;  // (…,F)
                gemm(dhidden.mat(), dy.mat(), w2.operand().mat());
                activation_backward(dpre, again ? hidden : Tensor(), dhidden, kept, activation);
                bias_gradient(t, b2, dy, all_of(w2));
                if (const Sink dw2 = t.sink(w2))
                  gemm(dw2.to.mat(), dy.mat().t(), hidden.mat(), {.beta = dw2.beta});
                bias_gradient(t, b1, dpre, all_of(w1));
                product_gradients(t, x, w1, dpre, all_of(w1));
              });
  tape.consume(pre);
  return y;
}

}  // namespace quern
