// What a model is: the config's section "model".
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "quern/autograd/ops.hpp"
#include "quern/base/fields.hpp"

namespace quern {

enum class Architecture { decoder, encoder, encoder_decoder, rnn, vit };
enum class NormPlacement { pre, post };
enum class PositionKind { learned, sinusoidal, rope, alibi, none };
enum class AttentionKind { full, sliding_window, linear, low_rank };
enum class FeatureMap { elu, favor };
enum class ScoreKind { scaled_dot, dot, general, additive };
enum class HeadKind { task, tokens, tags, label, value };
enum class InitKind { gpt2, xavier };

constexpr auto enum_names(Architecture) {
  return std::to_array<EnumName<Architecture>>({{Architecture::decoder, "decoder"},
                                                {Architecture::encoder, "encoder"},
                                                {Architecture::encoder_decoder, "encoder_decoder"},
                                                {Architecture::rnn, "rnn"},
                                                {Architecture::vit, "vit"}});
}
constexpr auto enum_names(Activation) {
  return std::to_array<EnumName<Activation>>({{Activation::gelu, "gelu"},
                                              {Activation::gelu_erf, "gelu_erf"},
                                              {Activation::relu, "relu"},
                                              {Activation::relu2, "relu2"},
                                              {Activation::silu, "silu"},
                                              {Activation::swiglu, "swiglu"},
                                              {Activation::geglu, "geglu"}});
}
constexpr auto enum_names(NormKind) {
  return std::to_array<EnumName<NormKind>>(
      {{NormKind::layernorm, "layernorm"}, {NormKind::rmsnorm, "rmsnorm"}});
}
constexpr auto enum_names(NormPlacement) {
  return std::to_array<EnumName<NormPlacement>>({{NormPlacement::pre, "pre"}, {NormPlacement::post, "post"}});
}
constexpr auto enum_names(PositionKind) {
  return std::to_array<EnumName<PositionKind>>({{PositionKind::learned, "learned"},
                                                {PositionKind::sinusoidal, "sinusoidal"},
                                                {PositionKind::rope, "rope"},
                                                {PositionKind::alibi, "alibi"},
                                                {PositionKind::none, "none"}});
}
constexpr auto enum_names(AttentionKind) {
  return std::to_array<EnumName<AttentionKind>>({{AttentionKind::full, "full"},
                                                 {AttentionKind::sliding_window, "sliding_window"},
                                                 {AttentionKind::linear, "linear"},
                                                 {AttentionKind::low_rank, "low_rank"}});
}
constexpr auto enum_names(FeatureMap) {
  return std::to_array<EnumName<FeatureMap>>({{FeatureMap::elu, "elu"}, {FeatureMap::favor, "favor"}});
}
constexpr auto enum_names(ScoreKind) {
  return std::to_array<EnumName<ScoreKind>>({{ScoreKind::scaled_dot, "scaled_dot"},
                                             {ScoreKind::dot, "dot"},
                                             {ScoreKind::general, "general"},
                                             {ScoreKind::additive, "additive"}});
}
constexpr auto enum_names(Cell) {
  return std::to_array<EnumName<Cell>>({{Cell::gru, "gru"}, {Cell::lstm, "lstm"}});
}
constexpr auto enum_names(HeadKind) {
  return std::to_array<EnumName<HeadKind>>({{HeadKind::task, "task"},
                                            {HeadKind::tokens, "tokens"},
                                            {HeadKind::tags, "tags"},
                                            {HeadKind::label, "label"},
                                            {HeadKind::value, "value"}});
}
constexpr auto enum_names(InitKind) {
  return std::to_array<EnumName<InitKind>>({{InitKind::gpt2, "gpt2"}, {InitKind::xavier, "xavier"}});
}

struct ModelConfig {
  Architecture architecture = Architecture::decoder;
  std::int64_t d_model = 128;
  std::int64_t n_layers = 4;
  std::int64_t n_heads = 4;
  std::int64_t n_kv_heads = 0;
  std::int64_t d_ff = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 256;
  double dropout = 0;
  double attention_dropout = 0;
  bool bias = true;
  bool tie_embeddings = true;
  Activation activation = Activation::gelu;
  NormKind norm = NormKind::layernorm;
  NormPlacement norm_placement = NormPlacement::pre;
  double norm_eps = 1e-5;
  PositionKind position = PositionKind::learned;
  double rope_theta = 10000;
  AttentionKind attention = AttentionKind::full;
  std::int64_t window = 0;
  std::int64_t global_tokens = 0;
  FeatureMap feature_map = FeatureMap::elu;
  std::int64_t n_features = 0;
  std::int64_t rank = 0;
  bool qk_norm = false;
  ScoreKind score = ScoreKind::scaled_dot;
  Cell cell = Cell::gru;
  bool reads_source = false;
  HeadKind head = HeadKind::task;
  std::int64_t n_outputs = 0;
  std::vector<std::int64_t> image;
  std::int64_t patch_size = 4;
  InitKind init = InitKind::gpt2;

  void fields(FieldList& f) {
    f("architecture", architecture,
      "Which parts the model has: a causal decoder; an encoder, whose tokens see each other both ways; both, "
      "the decoder reading the encoder's output; a recurrent network; or an encoder of image patches (vit).");
    f("d_model", d_model, between(1, 65536), "Width of the residual stream.");
    f("n_layers", n_layers, between(1, 1024), "Number of blocks.");
    f("n_heads", n_heads, between(1, 65536), "Attention heads; must divide d_model.");
    f("n_kv_heads", n_kv_heads, between(0, 65536),
      "Heads of keys and values, each shared by n_heads / n_kv_heads heads of queries; 0 means n_heads.");
    f("d_ff", d_ff, between(0, 1048576),
      "Width of the feed-forward's hidden layer; 0 means 4 * d_model, and for swiglu and geglu, which have a "
      "third matrix, 8/3 * d_model rounded up to a multiple of 8.");
    f("vocab_size", vocab_size, between(0, 16777216),
      "Tokens the model knows; 0 means the tokenizer's number.");
    f("context_length", context_length, between(1, 1048576), "Tokens of one training window.");
    f("dropout", dropout, half_open(0, 1),
      "Share of activations dropped after the embedding and after each attention and feed-forward.");
    f("attention_dropout", attention_dropout, half_open(0, 1), "Share of attention weights dropped.");
    f("bias", bias, "Biases in the linear layers and in layernorm; rmsnorm has none.");
    f("tie_embeddings", tie_embeddings, "The output projection is the token embedding, transposed.");
    f("activation", activation,
      "The feed-forward's nonlinearity; gelu is the tanh form, gelu_erf the exact one, relu2 relu squared; "
      "swiglu and geglu gate one product by silu or gelu of another.");
    f("norm", norm, "Normalisation of the residual stream; rmsnorm divides by the root mean square alone.");
    f("norm_placement", norm_placement,
      "pre: before each sublayer; post: after the addition, as in the 2017 paper.");
    f("norm_eps", norm_eps, between(1e-30, 1e30), "Added to the variance before the square root.");
    f("position", position,
      "How a token knows its place: a table added to the embedding (learned, sinusoidal; it ends at "
      "context_length), turned queries and keys (rope), a bias that falls with the distance (alibi), or not "
      "at all.");
    f("rope_theta", rope_theta, between(1e-3, 1e30), "The base of rope's wavelengths.");
    f("attention", attention,
      "Which earlier tokens a token sees: all, or with sliding_window the latest `window`. linear sees all "
      "through running sums, whose cost grows with the length and not with its square; low_rank, in "
      "encoders, "
      "sees `rank` learned mixtures of all keys and values.");
    f("window", window, between(0, 1048576),
      "Tokens that a token sees with sliding_window, itself included; at least 1 there, 0 otherwise.");
    f("global_tokens", global_tokens, between(0, 1048576),
      "With sliding_window: the first tokens of the text, which every token sees from beyond its window "
      "too.");
    f("feature_map", feature_map,
      "What linear attention makes of queries and keys: elu + 1, or favor, random features whose products "
      "near softmax's weights.");
    f("n_features", n_features, between(0, 65536),
      "Features of favor; 0 means the head size times its logarithm, rounded up to a multiple of 8.");
    f("rank", rank, between(0, 1048576), "Mixtures that low_rank sees; at least 1 there, 0 otherwise.");
    f("qk_norm", qk_norm, "RMSNorm over each head of queries and keys, before rope.");
    f("score", score,
      "What a query and a key make: their product over sqrt(head size), the product itself (dot), a product "
      "with a learned matrix between (general), or a learned vector times the tanh of their sum (additive).");
    f("cell", cell, "The recurrent network's layer: a gated recurrent unit, or a long short-term memory.");
    f("reads_source", reads_source,
      "rnn: an encoder reads a question before the decoder answers it; data.task says so, not the user.");
    f("head", head,
      "What comes out: the next or the hidden token, a tag for each token, one label or one number for the "
      "whole; task: what data.task asks for.");
    f("n_outputs", n_outputs, between(0, 16777216),
      "Tags or labels that the head knows; 0 means those of the data.");
    f("image", image, between(1, 65536), "vit: height, width and channels; empty means those of the data.");
    f("patch_size", patch_size, between(1, 4096), "vit: side of the squares that an image is cut into.");
    f("init", init,
      "gpt2: normal, 0.02, residual projections scaled by 1/sqrt(2 n_layers); xavier: Glorot uniform.");
  }
};

/// Whether an encoder reads the tokens, or the source that a decoder then looks at.
constexpr bool has_encoder(Architecture a) {
  return a == Architecture::encoder || a == Architecture::encoder_decoder || a == Architecture::vit;
}

/// The numbers of an image's patch.
inline std::int64_t patch_width(const ModelConfig& config) {
  return config.patch_size * config.patch_size * config.image.at(2);
}

/// The numbers of one head.
inline std::int64_t head_width(const ModelConfig& config) { return config.d_model / config.n_heads; }

/// The heads of keys and values: n_kv_heads, or what 0 means.
inline std::int64_t key_heads(const ModelConfig& config) {
  return config.n_kv_heads != 0 ? config.n_kv_heads : config.n_heads;
}

/// The features of a head of linear attention.
inline std::int64_t feature_count(const ModelConfig& config) {
  const std::int64_t width = head_width(config);
  if (config.feature_map == FeatureMap::elu) return width;
  if (config.n_features != 0) return config.n_features;
  const double enough = static_cast<double>(width) * std::log(static_cast<double>(width));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(enough / 8))) * 8;
}

/// Whether positions come from a table of context_length rows, so that there is no text beyond it.
constexpr bool has_table(PositionKind position) {
  return position == PositionKind::learned || position == PositionKind::sinusoidal;
}

/// Whether the model can read nothing longer than context_length: its positions are a table, or its low-rank
/// attention mixes so many places.
constexpr bool ends_at_context_length(const ModelConfig& config) {
  return has_table(config.position) || config.attention == AttentionKind::low_rank;
}

/// The hidden width of the feed-forward: d_ff, or what 0 means.
inline std::int64_t hidden_width(const ModelConfig& config) {
  if (config.d_ff != 0) return config.d_ff;
  return is_gated(config.activation) ? (config.d_model + 2) / 3 * 8 : 4 * config.d_model;
}

}  // namespace quern
