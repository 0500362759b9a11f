#include "quern/nn/recurrent_translator.hpp"

#include <cstring>

#include "quern/nn/init.hpp"

namespace quern {
namespace {

/// Keeps the numbers of a variable in a cache's tensor.
Var stored(Tape& tape, const Tensor& to, Var from, bool first) {
  QUERN_CHECK(!first || to.bytes() == from.value().bytes(), to.bytes());
  if (first) std::memcpy(to.data, from.value().data, static_cast<std::size_t>(to.bytes()));
  return tape.leaf(to);
}

}  // namespace

RecurrentTranslator::Additive::Additive(const Scope& scope, std::int64_t C)
    : keys(scope / "keys", C, C, false, recurrent_init(C)),
      input(scope / "input", C, 3 * C, true, recurrent_init(C), {C, C, C}, recurrent_init(C)),
      start(scope / "start", C / 2, C, false, recurrent_init(C / 2)),
      w_query((scope / "query").matrix("weight", C, C, recurrent_init(C))),
      v((scope / "score").vector("weight", C, recurrent_init(C))),
      w_context((scope / "context").matrix("weight", 3 * C, C, recurrent_init(C), {C, C, C})),
      w_hidden((scope / "hidden").matrix("weight", 3 * C, C, recurrent_init(C), {C, C, C})),
      b_hidden((scope / "hidden").vector("bias", 3 * C, recurrent_init(C))) {}

RecurrentTranslator::RecurrentTranslator(const Scope& scope, const ModelConfig& config)
    : path(scope.path()),
      embedding_path((scope / "embedding").path()),
      tokens((scope / "embedding")
                 .table("tokens.weight", config.vocab_size, config.d_model, recurrent_init(config.d_model))),
      readout(scope / "readout", 2 * config.d_model, config.d_model, true,
              recurrent_init(2 * config.d_model)),
      source_dropout{(scope / "encoder").site(), config.dropout},
      target_dropout{(scope / "decoder").site(), config.dropout} {
  const std::int64_t C = config.d_model;
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    const Scope layer = scope / "encoder" / std::to_string(i);
    encoder.push_back({RecurrentLayer(layer / "forward", config.cell, C, C / 2),
                       RecurrentLayer(layer / "backward", config.cell, C, C / 2)});
  }
  if (config.score == ScoreKind::additive) {
    additive.emplace(scope / "decoder", C);
    return;
  }
  for (std::int64_t i = 0; i < config.n_layers; ++i)
    decoder.emplace_back(scope / "decoder" / std::to_string(i), config.cell, C, C);
  attention.emplace(scope / "attention", config, AttentionRole::cross);
}

Var RecurrentTranslator::embed(Tape& tape, Tokens ids, DropoutSite dropout) const {
  const InModule in(tape, embedding_path);
  return embedding(tape, ids, var(tokens), 1, Var(), 0, dropout);
}

Var RecurrentTranslator::encode(Tape& tape, Tokens source) const {
  const InModule in(tape, path);
  Var x = embed(tape, source, source_dropout);
  for (const BothWays& layer : encoder)
    x = concatenate(tape, layer.forward(tape, x, source.lengths, false, nullptr),
                    layer.backward(tape, x, source.lengths, true, nullptr));
  return x;
}

Var RecurrentTranslator::ask(Tape& tape, Var x, const Memory& memory, KVCache* cache) const {
  const Additive& a = *additive;
  Var keys, states = memory.states, start;
  RecurrentState state;
  const bool first = cache == nullptr || cache->memory(0)->length == 0;
  if (first) {
    const std::int64_t half = states.dim(2) / 2;
    const Var both = first_position(tape, states);    // (B,C)
    tape.columns(both, 0, half);                      // parts tile their owner: nobody reads this one
    const Var back = tape.columns(both, half, half);  // (B,C/2)
    start = tanh(tape, a.start(tape, back));          // (B,C)
  }
  if (cache == nullptr) {
    keys = a.keys(tape, states);
  } else {
    LayerCache &own = *cache->layer(0), &held = *cache->memory(0);
    keys = stored(tape, held.keys, first ? a.keys(tape, states) : Var(), first);
    states = stored(tape, held.values, states, first);
    held.length = held.keys.dim[1];
    state = {own.sums.f32(), own.length == 0};
    own.length += x.dim(1);
  }
  std::vector<float> weights;
  const bool shows = memory.probe != nullptr;
  if (shows) weights.resize(static_cast<std::size_t>(x.dim(0) * x.dim(1) * keys.dim(1)));
  const auto [out, contexts] =
      attention_gru(tape, a.input(tape, x), keys, states, start,
                    {var(a.w_query), var(a.v), var(a.w_context), var(a.w_hidden), var(a.b_hidden)},
                    memory.lengths, state, shows ? weights.data() : nullptr);
  if (shows) memory.probe->found.push_back({0, 0, keys.dim(1), false, std::move(weights)});
  return concatenate(tape, out, contexts);
}

Var RecurrentTranslator::decode(Tape& tape, Tokens ids, const Memory& memory, KVCache* cache) const {
  const InModule in(tape, path);
  Var x = embed(tape, ids, target_dropout);
  if (additive) return readout(tape, ask(tape, x, memory, cache));
  for (std::size_t i = 0; i < decoder.size(); ++i)
    x = decoder[i](tape, x, nullptr, false, cache != nullptr ? cache->layer(i) : nullptr);
  AttentionContext context;
  context.lengths = memory.lengths;
  context.probe = memory.probe;
  const Var got =
      (*attention)(tape, x, memory.states, context, cache != nullptr ? cache->memory(0) : nullptr);
  return tanh(tape, readout(tape, concatenate(tape, x, got)));
}

}  // namespace quern
