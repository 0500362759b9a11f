#include "quern/kernels/embedding.hpp"

#include "quern/autograd/ops.hpp"

namespace quern {
namespace {

/// Forward reads a row of each table for each token and writes one; backward reads dout and adds it to both.
/// (B,T,C), positions (T,C)
OpCost embedding_cost(const Tensor& out, bool positions) {
  const double rows = static_cast<double>(out.bytes());
  const double table = positions ? static_cast<double>(out.dim[1] * out.dim[2]) * 4 : 0;
  return {{0, 2 * rows + table}, {0, 3 * rows + 2 * table}};
}

}  // namespace

Var embedding(Tape& tape, Tokens tokens, Var table, float scale, Var positions, std::int64_t first_position,
              DropoutSite dropout) {
  const std::int64_t C = table.dim(1);
  QUERN_CHECK(!positions || (positions.dim(1) == C && first_position + tokens.length <= positions.dim(0)),
              first_position, tokens.length);
  const Var out = tape.make({tokens.batch, tokens.length, C});  // (B,T,C)
  const Dropout mask = tape.dropout(dropout.site, dropout.rate, tokens.length);
  if (const Running run = tape.run("embedding", embedding_cost(out.shape(), static_cast<bool>(positions))))
    embedding_forward(out.value(), tokens.ids, table.value(), scale, positions.value_or_empty(),
                      first_position, mask, tokens.starts);
  tape.record("embedding", {table, positions}, {out},
              [table, positions, out, tokens, scale, first_position, mask](Tape& t) {
                embedding_backward(t.sink(table), t.sink(positions), t.grad(out), tokens.ids, scale,
                                   first_position, mask, tokens.starts);
              });
  return out;
}

}  // namespace quern
