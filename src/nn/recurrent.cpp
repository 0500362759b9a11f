#include "quern/nn/recurrent.hpp"

#include "quern/nn/init.hpp"

namespace quern {
namespace {

std::vector<std::int64_t> gate_rows(Cell cell, std::int64_t width) {
  return std::vector(static_cast<std::size_t>(gate_count(cell)), width);
}

}  // namespace

RecurrentLayer::RecurrentLayer(const Scope& scope, Cell kind, std::int64_t in, std::int64_t width)
    : path(scope.path()),
      cell(kind),
      input(scope / "input", in, gate_count(cell) * width, true, recurrent_init(width),
            gate_rows(cell, width), recurrent_init(width)),
      hidden((scope / "hidden")
                 .matrix("weight", gate_count(cell) * width, width, recurrent_init(width),
                         gate_rows(cell, width))),
      hidden_bias((scope / "hidden").vector("bias", gate_count(cell) * width, recurrent_init(width))) {}

Var RecurrentLayer::operator()(Tape& tape, Var x, const std::int32_t* lengths, bool reverse,
                               LayerCache* cache) const {
  const InModule in(tape, path);
  RecurrentOptions options{lengths, reverse, {}};
  if (cache != nullptr) {
    options.state = {cache->sums.f32(), cache->length == 0};
    cache->length += x.dim(1);
  }
  const Var gates = input(tape, x);  // (B,T,G*C)
  const Var y = recurrent(tape, gates, var(hidden), var(hidden_bias), cell, options);
  tape.consume(gates);
  return y;
}

RecurrentStack::RecurrentStack(const Scope& scope, const ModelConfig& config)
    : path(scope.path()),
      embedding_path((scope / "embedding").path()),
      tokens((scope / "embedding")
                 .table("tokens.weight", config.vocab_size, config.d_model, recurrent_init(config.d_model))) {
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    const Scope layer = scope / "layers" / std::to_string(i);
    layers.emplace_back(layer, config.cell, config.d_model, config.d_model);
    dropout.push_back({layer.site(), config.dropout});
  }
}

Var RecurrentStack::operator()(Tape& tape, Tokens ids, KVCache* cache, AttentionProbe*) const {
  QUERN_CHECK(ids.starts == nullptr);
  const InModule in(tape, path);
  Var x;
  {
    const InModule in_embedding(tape, embedding_path);
    x = embedding(tape, ids, var(tokens), 1, Var(), 0, dropout[0]);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) x = quern::dropout(tape, x, dropout[i]);
    x = layers[i](tape, x, nullptr, false, cache != nullptr ? cache->layer(i) : nullptr);
  }
  return x;
}

}  // namespace quern
