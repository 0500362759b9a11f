// Linear attention (Katharopoulos et al. 2020, 2006.16236, section 3.2): a weight is a product of positive
// features, so that sums over keys are taken once for all queries. For every batch b and head h:
//
//   out(t,d) = sum_s a(t,s) v(s,d) / den(t);   den(t) = sum_s a(t,s)
//   a(t,s)   = sum_m phi(q(t))_m phi(k(s))_m   for the keys s < length; causal: s <= t
//
// which the running sums S(m,d) = sum_s phi(k(s))_m v(s,d) and z(m) = sum_s phi(k(s))_m turn into
//
//   out(t,d) = sum_m phi(q(t))_m S(m,d) / den(t);   den(t) = sum_m phi(q(t))_m z(m)
//
// at a cost of T M D, and of a state that does not grow. The features:
//
//   elu    phi(x)_m = elu(x_m) + 1, M = D (eq. 7)
//   favor  phi(x)_m = exp(w_m x' - |x'|^2 / 2), x' = x / D^(1/4), with M random rows w_m that are orthogonal
//          within each D of them: the mean of a(t,s) / M is exp(q k / sqrt(D)), softmax's weight (FAVOR+,
//          Choromanski et al. 2021, 2009.14794, lemma 1 and section 2.4)
//
// A factor that all features of a query share cancels, and so does one that all keys share. So favor's
// exponents are taken relative to the largest of each query, and to the largest of the keys so far: nothing
// overflows, and when a larger one comes the sums are scaled down.
//
// Gradients, with g(t) = dout(t) / den(t), delta(t) = sum_d g(t,d) out(t,d) = sum_s a(t,s) sum_d g(t,d)
// v(s,d) / den(t), and sums over the queries t that see a key, R(m,d) = sum_t phi(q(t))_m g(t,d) and r(m) =
// sum_t phi(q(t))_m delta(t):
//
//   dphi(q(t))_m = sum_d S(m,d) g(t,d) - delta(t) z(m)
//   dphi(k(s))_m = sum_d R(m,d) v(s,d) - r(m)
//   dv(s,d)      = sum_m phi(k(s))_m R(m,d)
//   elu    dx_m = dphi_m min(phi_m, 1)
//   favor  dx   = D^(-1/4) (sum_m e_m w_m - x' sum_m e_m), e_m = phi_m dphi_m; of a query sum_m e_m is 0
//
// Work goes in chunks of tokens: between chunks by the running sums, inside one by a(t,s) itself (Hua et al.
// 2022, 2202.10447, section 3.2). q has H heads, k and v have Hkv, which divides H, as in attention.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quern/kernels/tensor.hpp"

namespace quern {

struct LinearAttentionOptions {
  bool causal = true;                     // query t sees the keys [0, t]; then T = S
  const std::int32_t* lengths = nullptr;  // (B): keys at or beyond are hidden; null: none are
  const float* directions = nullptr;      // (M,D): favor's rows w; null: elu
  std::int64_t n_features = 0;            // favor's M
};

/// The running sums S and z of the tokens so far, and favor's largest exponent: what causal attention needs
/// to go on.
struct LinearAttentionState {
  float* sums = nullptr;  // (B,Hkv,linear_attention_state_size(M,D)); null: none
  bool fresh = true;      // nothing was read yet: what lies there is not read
};

/// The floats of one head's state; M is the number of features, D of the elu map.
std::int64_t linear_attention_state_size(std::int64_t M, std::int64_t D);

/// out and den; q, k, v, out are all f32 or all bf16 (and so are the gradients), sums are f32. Views as in
/// attention_forward. A query that sees no key gets 0 for both. With a state (causal only) the tokens
/// continue it, and it comes to hold them too. Parallel over the B * Hkv heads.
void linear_attention_forward(Tensor out,  // (B,T,H,D)
                              float* den,  // (B,H,T)
                              Tensor q,    // (B,T,H,D)
                              Tensor k,    // (B,S,Hkv,D)
                              Tensor v,    // (B,S,Hkv,D)
                              const LinearAttentionOptions& options, const LinearAttentionState& state,
                              std::span<float> scratch);

/// The gradients that are wanted (each sink may be empty), from what forward was given and wrote, without a
/// state. No dq of a query that sees no key, no dk and dv of a hidden key: they are 0.
void linear_attention_backward(Sink dq,           // (B,T,H,D)
                               Sink dk,           // (B,S,Hkv,D)
                               Sink dv,           // (B,S,Hkv,D)
                               Tensor dout,       // (B,T,H,D)
                               const float* den,  // (B,H,T)
                               Tensor q,          // (B,T,H,D)
                               Tensor k,          // (B,S,Hkv,D)
                               Tensor v,          // (B,S,Hkv,D)
                               const LinearAttentionOptions& options, std::span<float> scratch);

/// How many floats each of the two needs as scratch: O(M D + T H / Hkv + S) for each thread of
/// thread_count() now. q (B,T,H,D), k (B,S,Hkv,D).
std::size_t linear_attention_scratch(const Tensor& q, const Tensor& k, const LinearAttentionOptions& options);

}  // namespace quern
