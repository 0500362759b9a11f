#include "quern/nn/recurrent.hpp"

#include <array>
#include <cmath>

namespace quern {
namespace {

Init start_of(std::int64_t width) { return Init::uniform(1 / std::sqrt(static_cast<double>(width))); }

std::vector<std::int64_t> gate_rows(Cell cell, std::int64_t width) {
  return std::vector(static_cast<std::size_t>(gate_count(cell)), width);
}

}  // namespace

RecurrentLayer::RecurrentLayer(const Scope& scope, Cell kind, std::int64_t in, std::int64_t width)
    : path(scope.path()),
      cell(kind),
      input(scope / "input", in, gate_count(cell) * width, true, start_of(width), gate_rows(cell, width),
            start_of(width)),
      hidden((scope / "hidden")
                 .matrix("weight", gate_count(cell) * width, width, start_of(width), gate_rows(cell, width))),
      hidden_bias((scope / "hidden").vector("bias", gate_count(cell) * width, start_of(width))) {}

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

RecurrentStack::RecurrentStack(const Scope& scope, const RecurrentSizes& sizes)
    : path(scope.path()),
      embedding_path((scope / "embedding").path()),
      tokens((scope / "embedding")
                 .table("tokens.weight", sizes.vocab_size, sizes.d_model, start_of(sizes.d_model))) {
  for (std::int64_t i = 0; i < sizes.n_layers; ++i) {
    const Scope layer = scope / "layers" / std::to_string(i);
    layers.emplace_back(layer, sizes.cell, sizes.d_model, sizes.d_model);
    dropout.push_back({layer.site(), sizes.dropout});
  }
}

KVCache RecurrentStack::make_cache(const RecurrentSizes& sizes, std::int64_t batch) {
  return KVCache(sizes.n_layers, std::array{batch, state_width(sizes.cell, sizes.d_model)});
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
