#include "linear_attention.hpp"

namespace quern::kernels::QUERN_LEVEL {
namespace {

struct ForwardTiles {
  float *key_phi, *query_phi;  // (M, chunk)
  float *x, *out;              // (D, chunk)
  float* v;                    // (chunk, padded D)
  float* a;                    // (chunk of keys, chunk of queries)
  float ones[chunk];
};

/// The keys of a chunk, as features, and its values.
template <class T>
void load_chunk(const ForwardTiles& x, const LinearAttentionHead& head, const Sums& sums, const Chunk& c) {
  load_columns(x.x, as<T>(head.k), head.k_stride, c, head.width, input_scale(head));
  key_features(x.key_phi, head, x.x, c, sums, true);
  copy_rows(x.v, head.padded, as<T>(head.v) + c.first * head.v_stride, head.v_stride, c.count, head.width, 1);
}

/// The queries of a chunk: what the sums hold, and with `inside` the chunk's own `inside` keys.
template <class T>
void answer(const ForwardTiles& x, const LinearAttentionHead& head, const LinearAttentionOutput& to,
            const Sums& sums, const Chunk& c, int64_t g, int64_t inside) {
  float den[chunk], inverse[chunk];
  load_columns(x.x, as<T>(head.q) + g * head.q_head, head.q_stride, c, head.width, input_scale(head));
  query_features(x.query_phi, head, x.x, c);
  wide_product(x.out, chunk, head.width, {sums.s, 1, head.padded}, x.query_phi, chunk, c.cols, head.features,
               false);
  if (inside > 0) {
    wide_product(x.a, chunk, inside, {x.key_phi, 1, chunk}, x.query_phi, chunk, c.cols, head.features, false);
    hide_triangle<true>(x.a, inside, c);
    wide_product(x.out, chunk, head.width, {x.v, 1, head.padded}, x.a, chunk, c.cols, inside, true);
  }
  each_vector(c, [&](int64_t j) QUERN_LAMBDA {
    vf total = {};
    for (int64_t m = 0; m < head.features; ++m) total += sums.z[m] * load(x.query_phi + m * chunk + j);
    for (int64_t s = 0; s < inside; ++s) total += load(x.a + s * chunk + j);
    store(den + j, total);
    store(inverse + j, total == vf{} ? vf{} : 1.0F / total);
  });
  __builtin_memcpy(to.den + g * head.queries + c.first, den, static_cast<unsigned long>(c.count) * 4);
  write_columns(static_cast<T*>(to.out) + g * to.head, to.stride, c, head.width, x.out, inverse, 0);
}

template <class T>
void forward_head(const LinearAttentionHead& head, const LinearAttentionOutput& to, float* scratch) {
  ForwardTiles x;
  const auto cut = [&scratch](int64_t n) { return scratch += n, scratch - n; };
  x.key_phi = cut(head.features * chunk), x.query_phi = cut(head.features * chunk);
  x.x = cut(head.padded * chunk), x.out = cut(head.padded * chunk);
  x.v = cut(head.padded * chunk), x.a = cut(chunk * chunk);
  zero(x.v, head.padded * chunk);  // the padding of D
  for (float& one : x.ones) one = 1;
  const Sums sums =
      sums_at(head, to.state != nullptr ? to.state : cut(linear_state_size(head.features, head.padded)));
  if (to.state == nullptr || to.fresh) clear(head, sums);
  const int64_t keys = head.visible;
  if (!head.causal)
    for (int64_t s = 0; s < keys; s += chunk) {
      const Chunk c = chunk_at(s, keys);
      load_chunk<T>(x, head, sums, c);
      add_to_sums(head, sums, x.key_phi, x.v, x.ones, c);
    }
  for (int64_t t = 0; t < head.queries; t += chunk) {
    const Chunk queries = chunk_at(t, head.queries), own = chunk_at(t, head.causal ? keys : 0);
    if (own.count > 0) load_chunk<T>(x, head, sums, own);
    for (int64_t g = 0; g < head.group; ++g) answer<T>(x, head, to, sums, queries, g, own.count);
    if (own.count > 0) add_to_sums(head, sums, x.key_phi, x.v, x.ones, own);
  }
}

}  // namespace

void linear_attention_head(const LinearAttentionHead& head, const LinearAttentionOutput& to, float* scratch) {
  if (head.half) return forward_head<uint16_t>(head, to, scratch);
  forward_head<float>(head, to, scratch);
}

}  // namespace quern::kernels::QUERN_LEVEL
