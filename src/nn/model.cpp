#include "quern/nn/model.hpp"

#include <algorithm>

namespace quern {
namespace {

constexpr const char* head_path = "head";

std::optional<Stack> make_encoder(ParamStore& store, const ModelConfig& config) {
  if (!has_encoder(config.architecture)) return std::nullopt;
  return std::make_optional<Stack>(Scope(store, "encoder"), config, AttentionRole::both_ways);
}

/// A decoder behind an encoder shares its embedding.
std::optional<Stack> make_decoder(ParamStore& store, const ModelConfig& config,
                                  const std::optional<Stack>& encoder) {
  if (config.architecture == Architecture::encoder_decoder)
    return std::make_optional<Stack>(Scope(store, "decoder"), config, AttentionRole::causal, true,
                                     encoder->embedding.tokens);
  if (config.architecture == Architecture::decoder)
    return std::make_optional<Stack>(Scope(store, "decoder"), config, AttentionRole::causal);
  return std::nullopt;
}

std::optional<RecurrentStack> make_recurrent(ParamStore& store, const ModelConfig& config) {
  if (config.architecture != Architecture::rnn || config.reads_source) return std::nullopt;
  return std::make_optional<RecurrentStack>(Scope(store, "decoder"), config);
}

std::optional<RecurrentTranslator> make_translator(ParamStore& store, const ModelConfig& config) {
  if (config.architecture != Architecture::rnn || !config.reads_source) return std::nullopt;
  return std::make_optional<RecurrentTranslator>(Scope(store, "translator"), config);
}

}  // namespace

Model::Model(const ModelConfig& config, bool trains, Type compute, Backing backing)
    : config_(config),
      store_(compute, backing),
      encoder_(make_encoder(store_, config_)),
      decoder_(make_decoder(store_, config_, encoder_)),
      recurrent_(make_recurrent(store_, config_)),
      translator_(make_translator(store_, config_)),
      head_(nullptr),
      head_bias_(nullptr) {
  const Scope scope(store_, head_path);
  switch (head()) {
    case HeadKind::task:
    case HeadKind::tokens:
      head_ = config.tie_embeddings
                  ? embedding()
                  : scope.table("weight", config.vocab_size, config.d_model, embedding_init(config));
      break;
    case HeadKind::tags:
    case HeadKind::label:
      head_ = scope.table("weight", config.n_outputs, config.d_model, embedding_init(config));
      break;
    case HeadKind::value:
      head_ = scope.table("weight", 1, config.d_model, embedding_init(config));
      head_bias_ = scope.vector("bias", 1, 0);
      break;
  }
  store_.allocate(trains);
}

Parameter* Model::embedding() const {
  if (recurrent_) return recurrent_->tokens;
  return translator_ ? translator_->tokens : (decoder_ ? decoder_ : encoder_)->embedding.tokens;
}

Var Model::hidden(Tape& tape, Tokens tokens, const Memory& memory, KVCache* cache,
                  AttentionProbe* probe) const {
  if (recurrent_) return (*recurrent_)(tape, tokens, cache, probe);
  if (translator_) return translator_->decode(tape, tokens, memory, cache);
  if (decoder_) return (*decoder_)(tape, tokens, memory, cache, probe);
  return (*encoder_)(tape, tokens, {}, nullptr, probe);
}

Memory Model::encode(Tape& tape, Tokens source, AttentionProbe* probe) const {
  if (translator_) return {translator_->encode(tape, source), source.lengths, nullptr};
  return {(*encoder_)(tape, source, {}, nullptr, probe), source.lengths, nullptr};
}

Memory Model::encoded_before(Tape& tape, std::int64_t batch, std::int64_t length) const {
  const std::int64_t shape[] = {batch, length, config_.d_model};
  return {tape.leaf(Tensor(nullptr, Type::f32, shape)), nullptr, nullptr};
}

Loss Model::loss(Tape& tape, const Input& input, const Targets& targets, double normaliser,
                 float label_smoothing) const {
  const Memory memory = has_memory() ? encode(tape, input.source) : Memory();
  const Var x = hidden(tape, input.tokens, memory, nullptr, nullptr);  // (B,T,C)
  const InModule in(tape, head_path);
  if (head() == HeadKind::tokens || head() == HeadKind::tags)
    return cross_entropy_head(tape, x, var(head_), targets.classes, normaliser, label_smoothing,
                              targets.predictions);
  const Var first = first_position(tape, x);  // (B,C)
  if (head() == HeadKind::label)
    return cross_entropy_head(tape, first, var(head_), targets.classes, normaliser, label_smoothing,
                              targets.predictions);
  const Var y = linear(tape, first, var(head_), var(head_bias_), Type::f32);  // (B,1)
  if (targets.predicted_values != nullptr && !tape.planning())
    std::copy_n(y.floats(), input.tokens.batch, targets.predicted_values);
  return squared_error(tape, y, targets.values, normaliser);
}

Var Model::logits(Tape& tape, Tokens tokens, KVCache* cache, AttentionProbe* probe,
                  const Memory& memory) const {
  Var x = hidden(tape, tokens, memory, cache, probe);  // (B,T,C)
  const InModule in(tape, head_path);
  if (head() == HeadKind::label || head() == HeadKind::value) x = first_position(tape, x);  // (B,C)
  return linear(tape, x, var(head_), var(head_bias_), Type::f32);
}

Var Model::last_logits(Tape& tape, Tokens tokens, KVCache* cache, const Memory& memory) const {
  const Tensor all = hidden(tape, tokens, memory, cache, nullptr).value();  // (B,T,C)
  const InModule in(tape, head_path);
  return linear(tape, tape.leaf(all.step(all.dim[1] - 1)), var(head_), Var(), Type::f32);
}

}  // namespace quern
