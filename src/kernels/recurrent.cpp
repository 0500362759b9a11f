#include "quern/kernels/recurrent.hpp"

#include "quern/kernels/reduce.hpp"
#include "recurrent_steps.hpp"

namespace quern {

using namespace kernels;

namespace {

struct ForwardRoom {
  Parts parts;
  Tensor product, state;  // (B,G*C), (B,state_width)

  ForwardRoom(const Tensor& out, Cell cell, float* scratch)
      : parts(scratch),
        product(parts.take(Type::f32, {out.dim[0], gate_count(cell) * out.dim[2]})),
        state(parts.take(Type::f32, {out.dim[0], state_width(cell, out.dim[2])})) {}
};

struct BackwardRoom {
  Parts parts;
  Tensor dgates, dproduct;  // (B,T,G*C): dx and dp, which are one for an LSTM
  Tensor dstate;            // (B,state_width)
  std::span<float> sums;

  BackwardRoom(const Tensor& out, Cell cell, float* scratch) : parts(scratch) {
    const std::int64_t B = out.dim[0], T = out.dim[1], C = out.dim[2], N = gate_count(cell) * C;
    dgates = parts.take(out.type, {B, T, N});
    dproduct = cell == Cell::gru ? parts.take(out.type, {B, T, N}) : dgates;
    dstate = parts.take(Type::f32, {B, state_width(cell, C)});
    sums = parts.floats(static_cast<std::int64_t>(column_sum_scratch(B * T, N)));
  }
};

void check_shapes(const Tensor& out, const RecurrentSaved& saved, const Tensor& w_hidden, Cell cell,
                  const RecurrentOptions& options) {
  QUERN_CHECK(out.rank == 3 && out.contiguous(), out.rank);
  const std::int64_t B = out.dim[0], T = out.dim[1], C = out.dim[2];
  QUERN_CHECK(w_hidden.rank == 2 && w_hidden.dim[0] == gate_count(cell) * C && w_hidden.dim[1] == C,
              w_hidden.dim[0], w_hidden.dim[1], C);
  QUERN_CHECK(!saved.activated || (saved.activated.type == out.type && saved.activated.last() == 4 * C));
  QUERN_CHECK(static_cast<bool>(saved.cells) == (saved.activated && cell == Cell::lstm));
  QUERN_CHECK(options.state.numbers == nullptr || !options.reverse);
  check_lengths(options.lengths, B, T);
}

}  // namespace

std::size_t recurrent_forward_scratch(const Tensor& out, Cell cell) {
  return ForwardRoom(out, cell, nullptr).parts.size();
}

std::size_t recurrent_backward_scratch(const Tensor& out, Cell cell) {
  return BackwardRoom(out, cell, nullptr).parts.size();
}

void recurrent_forward(Tensor out, const RecurrentSaved& saved, Tensor gates, Tensor w_hidden,
                       const float* b_hidden, Cell cell, const RecurrentOptions& options,
                       std::span<float> scratch) {
  check_shapes(out, saved, w_hidden, cell, options);
  const std::int64_t B = out.dim[0], T = out.dim[1], C = out.dim[2];
  QUERN_CHECK(gates.type == out.type && gates.dim[0] == B && gates.dim[1] == T &&
                  gates.last() == gate_count(cell) * C,
              gates.last(), C);
  QUERN_CHECK(scratch.size() >= recurrent_forward_scratch(out, cell), scratch.size());
  const ForwardRoom room(out, cell, scratch.data());
  float* const numbers = options.state.numbers;
  const Tensor state = numbers != nullptr ? Tensor(numbers, {B, state_width(cell, C)}) : room.state;
  if (numbers == nullptr || options.state.fresh) fill(state, 0);
  for (std::int64_t i = 0; i < T; ++i) {
    const std::int64_t t = options.reverse ? T - 1 - i : i;
    gemm(room.product.mat(), state.columns(0, C).mat(), w_hidden.mat().t(), {.bias = b_hidden});
    run_step({rows_of_step(gates, t),
              {},
              rows_of_all(room.product),
              rows_of_all(state),
              rows_of_step(out, t),
              rows_of_step(saved.activated, t),
              rows_of_step(saved.cells, t),
              {options.lengths, t},
              cell == Cell::lstm,
              C},
             B);
  }
}

void recurrent_backward(Sink dgates, Sink dw_hidden, Sink db_hidden, Tensor dout, Tensor out,
                        const RecurrentSaved& saved, Tensor w_hidden, Cell cell,
                        const RecurrentOptions& options, std::span<float> scratch) {
  check_shapes(out, saved, w_hidden, cell, options);
  QUERN_CHECK(saved.activated && same_shape(dout, out) && options.state.numbers == nullptr);
  QUERN_CHECK(scratch.size() >= recurrent_backward_scratch(out, cell), scratch.size());
  const std::int64_t B = out.dim[0], T = out.dim[1], C = out.dim[2];
  const BackwardRoom room(out, cell, scratch.data());
  fill(room.dstate, 0);
  for (std::int64_t i = T - 1; i >= 0; --i) {
    const std::int64_t t = options.reverse ? T - 1 - i : i, before = options.reverse ? t + 1 : t - 1;
    run_step_backward({rows_of_step(dout, t),
                       rows_of_all(room.dstate),
                       rows_of_step(saved.activated, t),
                       i > 0 ? rows_of_step(out, before) : Rows{},
                       rows_of_step(saved.cells, t),
                       i > 0 ? rows_of_step(saved.cells, before) : Rows{},
                       rows_of_step(room.dgates, t),
                       rows_of_step(room.dproduct, t),
                       {options.lengths, t},
                       cell == Cell::lstm,
                       C},
                      B);
    if (i > 0)
      gemm(room.dstate.columns(0, C).mat(), room.dproduct.step(t).mat(), w_hidden.mat(), {.beta = 1});
  }
  convert(dgates, room.dgates);
  column_sum(db_hidden, room.dproduct, room.sums);
  state_weight_gradient(dw_hidden, room.dproduct, out, {}, options.reverse);
}

}  // namespace quern
