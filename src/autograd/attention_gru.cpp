#include "quern/kernels/attention_gru.hpp"

#include <numeric>

#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

/// The pairs of a step and a key that it sees.
double visible_pairs(const AttentionGruInputs& in) {
  const std::int64_t B = in.gates.dim[0], T = in.gates.dim[1], S = in.keys.dim[1];
  std::int64_t keys = B * S;
  if (in.lengths != nullptr) keys = std::accumulate(in.lengths, in.lengths + B, std::int64_t{0});
  return static_cast<double>(T * keys);
}

/// Three products a step, which read their weights again each time, and two sums over the keys, which count
/// as products do and read keys and memory again each time. Backward has two products for each, and over the
/// keys five sums: scores again, what reaches the weights, the gradients of queries, keys and memory.
OpCost attention_gru_cost(const AttentionGruInputs& in, const AttentionGruOutputs& of) {
  const std::int64_t T = in.gates.dim[1], A = in.keys.dim[2], M = in.memory.dim[2];
  const double product =
      2 *
      static_cast<double>(in.gates.rows() * (in.w_query.size() + in.w_context.size() + in.w_hidden.size()));
  const double steps = static_cast<double>(T);
  const double weights =
      steps * static_cast<double>(in.w_query.bytes() + in.w_context.bytes() + in.w_hidden.bytes());
  const double asked = steps * static_cast<double>(in.keys.bytes() + in.memory.bytes());
  const double written = static_cast<double>(of.out.bytes() + of.contexts.bytes() + of.queries.bytes() +
                                             (of.activated ? of.activated.bytes() : 0));
  const double x = static_cast<double>(in.gates.bytes());
  const double pairs = 2 * visible_pairs(in), width_a = static_cast<double>(A),
               width_m = static_cast<double>(M);
  return {{product + pairs * (width_a + width_m), weights + asked + x + written},
          {2 * product + pairs * (3 * width_a + 2 * width_m), weights + 3 * asked + 4 * x + written},
          {bytes_of_floats(attention_gru_backward_scratch(in))}};
}

}  // namespace

AttentionGruStates attention_gru(Tape& tape, Var gates, Var keys, Var memory, Var start,
                                 const AttentionGruParameters& parameters, const std::int32_t* lengths,
                                 const RecurrentState& state, float* weights) {
  QUERN_CHECK(gates.shape().rank == 3 && keys.shape().rank == 3 && memory.shape().rank == 3);
  QUERN_CHECK(state.numbers == nullptr || !tape.recording());
  const auto& [w_query, v, w_context, w_hidden, b_hidden] = parameters;
  const std::int64_t B = gates.dim(0), T = gates.dim(1), C = gates.dim(2) / 3, A = keys.dim(2);
  QUERN_CHECK(v.shape().size() == A && b_hidden.shape().size() == 3 * C, A, C);
  const Type type = gates.shape().type;
  const Var out = tape.make({B, T, C}, type), contexts = tape.make({B, T, memory.dim(2)}, type);
  const Var queries = tape.make({B, T, A}, type);  // (B,T,A)
  const Var activated = tape.recording() ? tape.make({B, T, 4 * C}, type) : Var();
  float* lse = tape.statistics(B * T);  // (B,T)
  const auto inputs = [gates, keys, memory, start, parameters, lengths] {
    return AttentionGruInputs{gates.shape(),
                              keys.value(),
                              memory.value(),
                              start.value_or_empty(),
                              parameters.w_query.operand(),
                              parameters.v.floats(),
                              parameters.w_context.operand(),
                              parameters.w_hidden.operand(),
                              parameters.b_hidden.floats(),
                              lengths};
  };
  const auto outputs = [out, contexts, queries, activated, lse] {
    return AttentionGruOutputs{out.value(), contexts.value(), queries.value(), lse,
                               activated.value_or_empty()};
  };
  const Scratch scratch(tape, attention_gru_forward_scratch(inputs()));
  if (const Running run = tape.run("attention_gru", attention_gru_cost(inputs(), outputs())))
    attention_gru_forward(outputs(), inputs(), state, weights, scratch.span());
  for (const Var x : {keys, memory, start, out, contexts, queries, activated}) tape.keep(x);
  tape.record("attention_gru", {gates, keys, memory, start, w_query, v, w_context, w_hidden, b_hidden},
              {out, contexts, queries, activated},
              [gates, keys, memory, start, parameters, out, contexts, inputs, outputs](Tape& t) {
                t.value(keys), t.value(memory);  // which may have been consumed
                const Scratch room(t, attention_gru_backward_scratch(inputs()));
                const AttentionGruGradients to = {t.sink(gates),
                                                  t.sink(keys),
                                                  t.sink(memory),
                                                  t.sink(start),
                                                  t.sink(parameters.w_query),
                                                  t.sink(parameters.v),
                                                  t.sink(parameters.w_context),
                                                  t.sink(parameters.w_hidden),
                                                  t.sink(parameters.b_hidden)};
                attention_gru_backward(to, t.grad(out), t.grad(contexts), inputs(), outputs(), room.span());
              });
  tape.consume(queries);
  return {out, contexts};
}

}  // namespace quern
