#include "quern/nn/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quern/nn/init.hpp"

namespace quern {
namespace {

/// The parameter of a score. Scores start as spread as scaled products of queries and keys do.
Parameter* score_parameter(const Scope& scope, const ModelConfig& config) {
  const std::int64_t H = config.n_heads, D = head_width(config);
  const double width = static_cast<double>(D);
  switch (config.score) {
    case ScoreKind::general:
      return scope.matrix("weight", H * D, D, Init::normal(1 / width),
                          std::vector<std::int64_t>(static_cast<std::size_t>(H), D));
    case ScoreKind::additive: return scope.table("weight", H, D, Init::normal(1 / std::sqrt(width)));
    default: return nullptr;
  }
}

/// The mixtures of low-rank attention, which only encoders have: as far apart as an average of all places.
Parameter* mixtures(const Scope& scope, const char* name, const ModelConfig& config, AttentionRole role) {
  if (config.attention != AttentionKind::low_rank || role != AttentionRole::both_ways) return nullptr;
  return scope.table(name, config.rank, config.context_length,
                     Init::normal(1 / std::sqrt(static_cast<double>(config.context_length))));
}

/// Row t of sequence b.
char* at(const Tensor& x, std::int64_t b, std::int64_t t) { return x.at(b * x.stride[0] + t * x.stride[1]); }

/// Rows of (B,T,K) go to the rows from `first` on.
void put(const Tensor& cached, std::int64_t first, const Tensor& fresh) {
  QUERN_CHECK(cached.type == fresh.type);
  const auto bytes = static_cast<std::size_t>(fresh.last() * size_of(fresh.type));
  for (std::int64_t b = 0; b < fresh.dim[0]; ++b)
    for (std::int64_t t = 0; t < fresh.dim[1]; ++t)
      std::memcpy(at(cached, b, first + t), at(fresh, b, t), bytes);
}

/// The rows [begin, begin + n) move to those from `to` on.
void move_rows(const Tensor& cached, std::int64_t to, std::int64_t begin, std::int64_t n) {
  const auto bytes = static_cast<std::size_t>(n * cached.stride[1] * size_of(cached.type));
  for (std::int64_t b = 0; b < cached.dim[0]; ++b)
    std::memmove(at(cached, b, to), at(cached, b, begin), bytes);
}

/// The first n tokens of the cache.
Tensor prefix(Tensor cached, std::int64_t n) {
  cached.dim[1] = n;
  return cached;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const ModelConfig& config, AttentionRole role)
    : path(scope.path()),
      heads(config.n_heads),
      key_heads(quern::key_heads(config)),
      qkv(scope / "qkv", config.d_model, config.d_model + 2 * key_heads * head_width(config), config.bias,
          projection_init(config, config.d_model, config.d_model),
          {config.d_model, key_heads * head_width(config), key_heads * head_width(config)}),
      q_gain(config.qk_norm ? (scope / "q_norm").vector("weight", head_width(config), 1) : nullptr),
      k_gain(config.qk_norm ? (scope / "k_norm").vector("weight", head_width(config), 1) : nullptr),
      eps(static_cast<float>(config.norm_eps)),
      score(config.score),
      linear(config.attention == AttentionKind::linear),
      directions(
          linear && config.feature_map == FeatureMap::favor
              ? (scope / "favor")
                    .fixed_matrix("directions", feature_count(config), head_width(config), Init::orthogonal())
              : nullptr),
      key_mixtures(mixtures(scope / "low_rank", "keys", config, role)),
      value_mixtures(mixtures(scope / "low_rank", "values", config, role)),
      score_weight(score_parameter(scope / "score", config)),
      out(scope / "out", config.d_model, config.d_model, config.bias,
          residual_init(config, config.d_model, config.d_model)),
      dropout{scope.site(), config.attention_dropout},
      causal(role == AttentionRole::causal),
      window(config.attention == AttentionKind::sliding_window ? config.window : 0),
      globals(window > 0 ? config.global_tokens : 0) {
  if (config.position == PositionKind::alibi) slopes = alibi_slopes(heads);
}

std::int64_t MultiHeadAttention::append(LayerCache& cache, const Tensor& keys, const Tensor& values) const {
  const std::int64_t T = keys.dim[1], capacity = cache.keys.dim[1];
  if (window > 0 && cache.held() + T > capacity) {
    const std::int64_t kept = std::min(globals, cache.held());
    const std::int64_t seen = std::min(window - 1, cache.held() - kept), from = cache.held() - seen;
    move_rows(cache.keys, kept, from, seen);
    move_rows(cache.values, kept, from, seen);
    cache.dropped += from - kept;
  }
  const std::int64_t first = cache.held();
  QUERN_CHECK(first + T <= capacity && cache.keys.dim[0] == keys.dim[0], first, T, capacity);
  put(cache.keys, first, keys);
  put(cache.values, first, values);
  cache.length += T;
  return first;
}

Var MultiHeadAttention::placed(Tape& tape, Var x, std::int64_t heads_of_x, Var rotations,
                               Parameter* gain) const {
  return rotations || gain != nullptr ? rotary(tape, x, heads_of_x, rotations, var(gain), eps) : x;
}

Var MultiHeadAttention::query(Tape& tape, Var q, Var rotations) const {
  if (score == ScoreKind::general) q = head_products(tape, q, var(score_weight), heads);
  return placed(tape, q, heads, rotations, q_gain);
}

MultiHeadAttention::Heads MultiHeadAttention::self(Tape& tape, Var x, const AttentionContext& context,
                                                   LayerCache* cache, AttentionMask& mask) const {
  const std::int64_t C = x.dim(2), K = C / heads * key_heads;
  const Var packed = qkv(tape, x);  // (B,T,C+2K)
  const Var q = query(tape, tape.columns(packed, 0, C), context.rotations);
  const Var k = placed(tape, tape.columns(packed, C, K), key_heads, context.rotations, k_gain);
  const Var v = tape.columns(packed, C + K, K);
  mask.causal = causal;
  mask.window = window;
  mask.globals = globals;
  mask.starts = context.starts;
  mask.queries = x.dim(1);
  if (cache == nullptr || linear) return {q, k, v};
  mask.offset = append(*cache, k.value(), v.value());
  mask.gap = cache->dropped;
  return {q, tape.leaf(prefix(cache->keys, cache->held())), tape.leaf(prefix(cache->values, cache->held()))};
}

MultiHeadAttention::Heads MultiHeadAttention::cross(Tape& tape, Var x, Var memory, LayerCache* cache) const {
  const std::int64_t C = x.dim(2), K = C / heads * key_heads;
  const Var q = query(tape, qkv(tape, x, {0, C}), Var());
  if (cache == nullptr || cache->length == 0) {
    const Var packed = qkv(tape, memory, {C, 2 * K});  // (B,S,2K)
    const Var k = placed(tape, tape.columns(packed, 0, K), key_heads, Var(), k_gain);
    const Var v = tape.columns(packed, K, K);
    if (cache == nullptr) return {q, k, v};
    append(*cache, k.value(), v.value());
  }
  QUERN_CHECK(cache->length == memory.dim(1), cache->length, memory.dim(1));
  return {q, tape.leaf(prefix(cache->keys, cache->length)), tape.leaf(prefix(cache->values, cache->length))};
}

Var MultiHeadAttention::attended(Tape& tape, const Heads& of, const AttentionMask& mask, const float* bias,
                                 LayerCache* cache) const {
  const auto& [q, k, v] = of;
  if (linear) {
    LinearAttentionState state;
    if (cache != nullptr) {
      state = {cache->sums.f32(), cache->length == 0};
      cache->length += q.dim(1);
    }
    return linear_attention(tape, q, k, v, var(directions), heads, key_heads, mask.causal, mask.lengths,
                            state);
  }
  if (score == ScoreKind::additive)
    return additive_attention(tape, q, k, v, var(score_weight), heads, key_heads, mask, dropout, bias);
  return attention(tape, q, k, v, heads, key_heads, scale(q.dim(2) / heads), mask, dropout, bias);
}

void MultiHeadAttention::show(Tape& tape, AttentionProbe& probe, std::int64_t layer, const Heads& of,
                              const AttentionMask& mask, const float* bias) const {
  const auto wanted = [](const std::vector<std::int64_t>& list, std::int64_t i) {
    return list.empty() || std::find(list.begin(), list.end(), i) != list.end();
  };
  if (!wanted(probe.layers, layer)) return;
  const Var w = score == ScoreKind::additive ? var(score_weight) : Var();
  for (std::int64_t h = 0; h < heads; ++h)
    if (wanted(probe.heads, h))
      probe.found.push_back({layer, h, of.k.dim(1), key_mixtures != nullptr,
                             linear ? linear_attention_weights(tape, of.q, of.k, var(directions), heads,
                                                               key_heads, mask.causal, h)
                                    : attention_weights(of.q, of.k, w, heads, key_heads,
                                                        scale(of.q.dim(2) / heads), mask, bias, h)});
}

Var MultiHeadAttention::operator()(Tape& tape, Var x, Var memory, const AttentionContext& context,
                                   LayerCache* cache) const {
  const InModule in(tape, path);
  AttentionMask mask;
  mask.causal = false;
  mask.lengths = context.lengths;
  const bool own = memory == x;
  Heads of = own ? self(tape, x, context, cache, mask) : cross(tape, x, memory, cache);
  if (key_mixtures != nullptr) {  // (B,R,K), of which none is padding
    of.k = sequence_projection(tape, of.k, var(key_mixtures), context.lengths);
    of.v = sequence_projection(tape, of.v, var(value_mixtures), context.lengths);
    mask.lengths = nullptr;
  }
  const float* bias = own && !slopes.empty() ? slopes.data() : nullptr;
  if (context.probe != nullptr) show(tape, *context.probe, context.layer, of, mask, bias);
  const Var y = attended(tape, of, mask, bias, own ? cache : nullptr);  // (B,T,C)
  tape.consume(of.q);
  tape.consume(of.k);
  return out(tape, y);
}

}  // namespace quern
