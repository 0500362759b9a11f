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

/// The rows [begin, begin + n) move to the front.
void move_to_front(const Tensor& cached, std::int64_t begin, std::int64_t n) {
  const auto bytes = static_cast<std::size_t>(n * cached.stride[1] * size_of(cached.type));
  for (std::int64_t b = 0; b < cached.dim[0]; ++b)
    std::memmove(at(cached, b, 0), at(cached, b, begin), bytes);
}

/// The first n tokens of the cache.
Tensor prefix(Tensor cached, std::int64_t n) {
  cached.dim[1] = n;
  return cached;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const ModelConfig& config)
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
      score_weight(score_parameter(scope / "score", config)),
      out(scope / "out", config.d_model, config.d_model, config.bias,
          residual_init(config, config.d_model, config.d_model)),
      dropout{scope.site(), config.attention_dropout},
      window(config.attention == AttentionKind::sliding_window ? config.window : 0) {
  if (config.position == PositionKind::alibi) slopes = alibi_slopes(heads);
}

std::int64_t MultiHeadAttention::append(LayerCache& cache, const Tensor& keys, const Tensor& values) const {
  const std::int64_t T = keys.dim[1], capacity = cache.keys.dim[1];
  if (window > 0 && cache.held() + T > capacity) {
    const std::int64_t seen = std::min(window - 1, cache.held()), gone = cache.held() - seen;
    move_to_front(cache.keys, gone, seen);
    move_to_front(cache.values, gone, seen);
    cache.dropped += gone;
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

Var MultiHeadAttention::attended(Tape& tape, Var q, Var k, Var v, LayerCache* cache) const {
  if (linear) {
    LinearAttentionState state;
    if (cache != nullptr) {
      state = {cache->sums.f32(), cache->length == 0};
      cache->length += q.dim(1);
    }
    return linear_attention(tape, q, k, v, var(directions), heads, key_heads, true, nullptr, state);
  }
  AttentionMask mask;
  mask.window = window;
  if (cache != nullptr) {
    mask.offset = append(*cache, k.value(), v.value());
    k = tape.leaf(prefix(cache->keys, cache->held()));
    v = tape.leaf(prefix(cache->values, cache->held()));
  }
  const float* bias = slopes.empty() ? nullptr : slopes.data();
  if (score == ScoreKind::additive)
    return additive_attention(tape, q, k, v, var(score_weight), heads, key_heads, mask, dropout, bias);
  const float scale = score == ScoreKind::scaled_dot ? attention_scale(q.dim(2) / heads) : 1;
  return attention(tape, q, k, v, heads, key_heads, scale, mask, dropout, bias);
}

Var MultiHeadAttention::operator()(Tape& tape, Var x, Var rotations, LayerCache* cache) const {
  const InModule in(tape, path);
  const std::int64_t C = x.dim(2), K = C / heads * key_heads;
  const Var packed = qkv(tape, x);  // (B,T,C+2K)
  Var q = tape.columns(packed, 0, C);
  if (score == ScoreKind::general) q = head_products(tape, q, var(score_weight), heads);
  q = placed(tape, q, heads, rotations, q_gain);
  const Var k = placed(tape, tape.columns(packed, C, K), key_heads, rotations, k_gain);
  const Var v = tape.columns(packed, C + K, K);
  const Var y = attended(tape, q, k, v, cache);  // (B,T,C)
  tape.consume(q);
  tape.consume(k);
  return out(tape, y);
}

}  // namespace quern
