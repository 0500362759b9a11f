#include "quern/kernels/embedding.hpp"

#include "quern/autograd/ops.hpp"

namespace quern {

Var embedding(Tape& tape, Tokens tokens, Var table, float scale, Var positions, std::int64_t first_position,
              DropoutSite dropout) {
  const std::int64_t C = table.dim(1);
  QUERN_CHECK(!positions || (positions.dim(1) == C && first_position + tokens.length <= positions.dim(0)),
              first_position, tokens.length);
  const Var out = tape.make({tokens.batch, tokens.length, C});  // (B,T,C)
  const Dropout mask = tape.dropout(dropout.site, dropout.rate, tokens.length);
  embedding_forward(out.value(), tokens.ids, table.value(), scale, positions.value_or_empty(), first_position,
                    mask, tokens.starts);
  tape.record("embedding", {table, positions}, {out},
              [table, positions, out, tokens, scale, first_position, mask](Tape& t) {
                embedding_backward(t.sink(table), t.sink(positions), t.grad(out), tokens.ids, scale,
                                   first_position, mask, tokens.starts);
              });
  return out;
}

}  // namespace quern
