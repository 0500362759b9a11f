#include "quern/kernels/attention_gru.hpp"

#include "quern/kernels/reduce.hpp"
#include "recurrent_steps.hpp"

namespace quern {

using namespace kernels;

namespace {

struct Sizes {
  std::int64_t B, T, C, S, A, M;

  explicit Sizes(const AttentionGruInputs& in)
      : B(in.gates.dim[0]),
        T(in.gates.dim[1]),
        C(in.gates.dim[2] / 3),
        S(in.keys.dim[1]),
        A(in.keys.dim[2]),
        M(in.memory.dim[2]) {}
};

struct ForwardRoom {
  Parts parts;
  Tensor product, more;   // (B,3C): p, and W_context c
  Tensor state, weights;  // (B,C), (B,S)

  ForwardRoom(const Sizes& n, float* scratch)
      : parts(scratch),
        product(parts.take(Type::f32, {n.B, 3 * n.C})),
        more(parts.take(Type::f32, {n.B, 3 * n.C})),
        state(parts.take(Type::f32, {n.B, n.C})),
        weights(parts.take(Type::f32, {n.B, n.S})) {}
};

struct BackwardRoom {
  Parts parts;
  Tensor dgates, dproduct;  // (B,T,3C): dx and dp
  Tensor dqueries;          // (B,T,A)
  Tensor dstate, dcontext;  // (B,C), (B,M): of one step
  Tensor dkeys, dmemory;    // (B,S,A), (B,S,M)
  Tensor dv, room;          // (B,A)
  std::span<float> sums;

  BackwardRoom(const Sizes& n, Type type, float* scratch)
      : parts(scratch),
        dgates(parts.take(type, {n.B, n.T, 3 * n.C})),
        dproduct(parts.take(type, {n.B, n.T, 3 * n.C})),
        dqueries(parts.take(Type::f32, {n.B, n.T, n.A})),
        dstate(parts.take(Type::f32, {n.B, n.C})),
        dcontext(parts.take(Type::f32, {n.B, n.M})),
        dkeys(parts.take(Type::f32, {n.B, n.S, n.A})),
        dmemory(parts.take(Type::f32, {n.B, n.S, n.M})),
        dv(parts.take(Type::f32, {n.B, n.A})),
        room(parts.take(Type::f32, {n.B, n.A})),
        sums(parts.floats(static_cast<std::int64_t>(
            std::max(column_sum_scratch(n.B * n.T, 3 * n.C), column_sum_scratch(n.B, n.A))))) {}
};

void check_inputs(const AttentionGruInputs& in, const AttentionGruOutputs& of) {
  const Sizes n(in);
  const Type type = in.gates.type;
  const auto is = [&](const Tensor& x, std::initializer_list<std::int64_t> shape) {
    return same_shape(x, Tensor(nullptr, type, std::span(shape.begin(), shape.size())));
  };
  QUERN_CHECK(
      is(in.gates, {n.B, n.T, 3 * n.C}) && is(in.keys, {n.B, n.S, n.A}) && is(in.memory, {n.B, n.S, n.M}),
      n.B, n.T, n.C, n.S, n.A, n.M);
  QUERN_CHECK(
      is(in.w_query, {n.A, n.C}) && is(in.w_context, {3 * n.C, n.M}) && is(in.w_hidden, {3 * n.C, n.C}), n.A,
      n.C, n.M);
  QUERN_CHECK(is(of.out, {n.B, n.T, n.C}) && is(of.contexts, {n.B, n.T, n.M}) &&
              is(of.queries, {n.B, n.T, n.A}) && of.out.contiguous() && of.contexts.contiguous());
  QUERN_CHECK(!of.activated || is(of.activated, {n.B, n.T, 4 * n.C}));
  QUERN_CHECK(!in.start || is(in.start, {n.B, n.C}));
  for (const Tensor& x : {in.keys, in.memory, in.start, of.out, of.contexts, of.queries, of.activated})
    QUERN_CHECK(!x || x.type == type);
  check_lengths(in.lengths, n.B, n.S);
}

/// Rows of sequences; the level knows how far the rows of one lie apart.
Rows sequences_of(const Tensor& x) {
  QUERN_CHECK(x.stride[2] == 1 || x.dim[2] == 1, x.stride[2]);
  return {x.data, x.stride[0], x.type == Type::bf16};
}

AdditiveRead read_of(const AttentionGruInputs& in, const AttentionGruOutputs& of, const Tensor& weights,
                     std::int64_t t) {
  const Sizes n(in);
  return {rows_of_step(of.queries, t),
          sequences_of(in.keys),
          sequences_of(in.memory),
          in.keys.stride[1],
          in.memory.stride[1],
          in.v,
          in.lengths,
          n.S,
          n.A,
          n.M,
          weights ? rows_of_all(weights) : Rows{},
          rows_of_step(of.contexts, t),
          {of.lse + t, n.T, false}};
}

/// Sequences of a chunk: a tanh is worth some eight numbers of a copy.
std::int64_t read_grain(const Sizes& n) { return row_grain(n.S * (8 * n.A + n.M)); }

}  // namespace

std::size_t attention_gru_forward_scratch(const AttentionGruInputs& in) {
  return ForwardRoom(Sizes(in), nullptr).parts.size();
}

std::size_t attention_gru_backward_scratch(const AttentionGruInputs& in) {
  return BackwardRoom(Sizes(in), in.gates.type, nullptr).parts.size();
}

void attention_gru_forward(const AttentionGruOutputs& to, const AttentionGruInputs& in,
                           const RecurrentState& state, float* weights, std::span<float> scratch) {
  check_inputs(in, to);
  QUERN_CHECK(scratch.size() >= attention_gru_forward_scratch(in), scratch.size());
  const Sizes n(in);
  const ForwardRoom room(n, scratch.data());
  const Tensor s = state.numbers != nullptr ? Tensor(state.numbers, {n.B, n.C}) : room.state;
  const Tensor shown = weights != nullptr ? Tensor(weights, {n.B, n.T, n.S}) : Tensor();
  if (state.numbers == nullptr || state.fresh) {
    if (in.start) {
      convert({s, 0}, in.start);
    } else {
      fill(s, 0);
    }
  }
  for (std::int64_t t = 0; t < n.T; ++t) {
    gemm(to.queries.step(t).mat(), s.mat(), in.w_query.mat().t());
    const AdditiveRead read = read_of(in, to, shown ? shown.step(t) : room.weights, t);
    parallel_for(n.B, read_grain(n),
                 [&](std::int64_t begin, std::int64_t end) { level().additive_read(read, begin, end); });
    gemm(room.more.mat(), to.contexts.step(t).mat(), in.w_context.mat().t());
    gemm(room.product.mat(), s.mat(), in.w_hidden.mat().t(), {.bias = in.b_hidden});
    run_step({rows_of_step(in.gates, t),
              rows_of_all(room.more),
              rows_of_all(room.product),
              rows_of_all(s),
              rows_of_step(to.out, t),
              rows_of_step(to.activated, t),
              {},
              {nullptr, t},
              false,
              n.C},
             n.B);
  }
}

namespace {

/// Step t in reverse: the attention's part, from dgates to dcontext and on to queries, keys and memory.
void read_backward(const BackwardRoom& room, const Tensor& dcontexts, const AttentionGruInputs& in,
                   const AttentionGruOutputs& from, std::int64_t t) {
  const Sizes n(in);
  if (dcontexts) {
    convert({room.dcontext, 0}, dcontexts.step(t));
  } else {
    fill(room.dcontext, 0);
  }
  gemm(room.dcontext.mat(), room.dgates.step(t).mat(), in.w_context.mat(), {.beta = 1});
  const AdditiveReadBackward a = {read_of(in, from, {}, t),       rows_of_all(room.dcontext),
                                  rows_of_step(room.dqueries, t), sequences_of(room.dkeys),
                                  sequences_of(room.dmemory),     rows_of_all(room.dv),
                                  rows_of_all(room.room)};
  parallel_for(n.B, read_grain(n),
               [&](std::int64_t begin, std::int64_t end) { level().additive_read_backward(a, begin, end); });
}

}  // namespace

void attention_gru_backward(const AttentionGruGradients& to, Tensor dout, Tensor dcontexts,
                            const AttentionGruInputs& in, const AttentionGruOutputs& from,
                            std::span<float> scratch) {
  check_inputs(in, from);
  QUERN_CHECK(from.activated && (!dout || same_shape(dout, from.out)) &&
              (!dcontexts || same_shape(dcontexts, from.contexts)));
  QUERN_CHECK(scratch.size() >= attention_gru_backward_scratch(in), scratch.size());
  const Sizes n(in);
  const BackwardRoom room(n, in.gates.type, scratch.data());
  for (const Tensor& sum : {room.dstate, room.dkeys, room.dmemory, room.dv}) fill(sum, 0);
  for (std::int64_t t = n.T - 1; t >= 0; --t) {
    run_step_backward({rows_of_step(dout, t),
                       rows_of_all(room.dstate),
                       rows_of_step(from.activated, t),
                       t > 0      ? rows_of_step(from.out, t - 1)
                       : in.start ? rows_of_all(in.start)
                                  : Rows{},
                       {},
                       {},
                       rows_of_step(room.dgates, t),
                       rows_of_step(room.dproduct, t),
                       {nullptr, t},
                       false,
                       n.C},
                      n.B);
    read_backward(room, dcontexts, in, from, t);
    if (t == 0 && !to.start) break;
    gemm(room.dstate.mat(), room.dproduct.step(t).mat(), in.w_hidden.mat(), {.beta = 1});
    gemm(room.dstate.mat(), room.dqueries.step(t).mat(), in.w_query.mat(), {.beta = 1});
  }
  convert(to.start, room.dstate);
  convert(to.keys, room.dkeys);
  convert(to.memory, room.dmemory);
  convert(to.gates, room.dgates);
  column_sum(to.b_hidden, room.dproduct, room.sums);
  column_sum(to.v, room.dv, room.sums);
  if (to.w_context)
    gemm(to.w_context.to.mat(), room.dgates.mat().t(), from.contexts.mat(), {.beta = to.w_context.beta});
  state_weight_gradient(to.w_hidden, room.dproduct, from.out, in.start, false);
  state_weight_gradient(to.w_query, room.dqueries, from.out, in.start, false);
}

}  // namespace quern
