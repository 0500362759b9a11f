// Every differentiable operation: the table of contents. Each checks its shapes, runs its kernel and records
// how to go back; the formulas with their gradients stand in the kernel's header.
//
// Where weights have a bf16 shadow (see ParamStore), products take it, round their other operand to bf16 too,
// and give bf16; sums are f32. Gradients of parameters are f32.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "quern/autograd/tape.hpp"
#include "quern/kernels/activation.hpp"
#include "quern/kernels/attention.hpp"
#include "quern/kernels/attention_gru.hpp"
#include "quern/kernels/embedding.hpp"
#include "quern/kernels/linear_attention.hpp"
#include "quern/kernels/norm.hpp"
#include "quern/kernels/recurrent.hpp"

namespace quern {

/// Token ids of a batch, (B,T), each in [0, V).
struct Tokens {
  const std::int32_t* ids = nullptr;
  std::int64_t batch = 0, length = 0;
  /// (B,T), documents packed in a row: where in its row each token's document begins; null: a row is one
  /// document. Positions and attention restart there.
  const std::int32_t* starts = nullptr;
  /// (B): tokens at or beyond are padding, which nobody sees; null: none are.
  const std::int32_t* lengths = nullptr;
  /// (B,T,P): what images have in place of tokens; then the ids count 0 … B*T - 1.
  const float* patches = nullptr;
};

/// A share of elements dropped at a site: the site is the module's path, hashed.
struct DropoutSite {
  std::uint64_t site = 0;
  double rate = 0;
};

/// dropout(scale * table[id] + positions[first_position + t - start])  // (B,T,C); table (V,C), positions
/// (P,C) or none; start is that of the token's document, or 0. kernels/embedding.hpp. Positions may be a
/// fixed table: then they take no gradient.
Var embedding(Tape& tape, Tokens tokens, Var table, float scale, Var positions, std::int64_t first_position,
              DropoutSite dropout);

/// dropout(x)  // (B,T,C), of x's type; x itself where nothing is dropped. kernels/dropout.hpp.
Var dropout(Tape& tape, Var x, DropoutSite dropout);

/// Some outputs of a linear layer: the rows [first, first + count) of its weight; count 0: all.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

/// x Wᵀ + b  // (…,N); x (…,K), w (N,K), b (N) or none. kernels/gemm.hpp.
///   dx = dy W,  dW = dyᵀ x,  db = column sums of dy
/// of the type that products take, or of `type`. With `rows` only those of w and b take part; the gradient of
/// the others is 0.
Var linear(Tape& tape, Var x, Var w, Var b, std::optional<Type> type = std::nullopt, RowRange rows = {});

/// 1 / sqrt(D), the scale of a dot product of width D (Vaswani et al. 2017, section 3.2.1).
float attention_scale(std::int64_t width);

/// Dot-product attention with `heads` heads (Vaswani et al. 2017, 1706.03762, section 3.2; with scale 1 the
/// "dot" score of Luong et al. 2015, 1508.04025), as tiles with an online softmax. kernels/attention.hpp.
/// q (B,T,C); k, v (B,S,key_heads*D), where key_heads divides heads; all three may be columns of one packed
/// projection. `slopes` (heads) are ALiBi's, or null; they outlive the tape. Saves the output and one
/// logsumexp a row.
Var attention(Tape& tape, Var q, Var k, Var v, std::int64_t heads, std::int64_t key_heads, float scale,
              const AttentionMask& mask, DropoutSite dropout, const float* slopes = nullptr);

/// The same with additive scores, sum_d w(h,d) tanh(q(t,d) + k(s,d)) (Bahdanau et al. 2014, 1409.0473,
/// appendix A.1.2); the projections that make q and k are the paper's W_a and U_a. w (H,D).
Var additive_attention(Tape& tape, Var q, Var k, Var v, Var w, std::int64_t heads, std::int64_t key_heads,
                       const AttentionMask& mask, DropoutSite dropout, const float* slopes = nullptr);

/// Linear attention (Katharopoulos et al. 2020, 2006.16236) with the features elu + 1, or with those of
/// `directions` (M,D), which take no gradient (FAVOR+, Choromanski et al. 2021, 2009.14794).
/// kernels/linear_attention.hpp. q (B,T,C); k, v (B,S,key_heads*D). `lengths` as in the kernel. With a state
/// the tokens continue it, in inference. Saves one number a row.
Var linear_attention(Tape& tape, Var q, Var k, Var v, Var directions, std::int64_t heads,
                     std::int64_t key_heads, bool causal, const std::int32_t* lengths = nullptr,
                     const LinearAttentionState& state = {});

/// The weights of one head in every sequence, exact and slow, for looking at: no gradient, no dropout.
/// kernels/attention.hpp. As in attention() or, with w, additive_attention(); (B,T,S).
std::vector<float> attention_weights(Var q, Var k, Var w, std::int64_t heads, std::int64_t key_heads,
                                     float scale, const AttentionMask& mask, const float* slopes,
                                     std::int64_t head);
/// The same of linear_attention(), which never makes them: what it gives for values that are unit vectors.
/// f32.
std::vector<float> linear_attention_weights(Tape& tape, Var q, Var k, Var directions, std::int64_t heads,
                                            std::int64_t key_heads, bool causal, std::int64_t head);

/// y_h = x_h W_h for each head h  // (B,T,H*E); x (B,T,H*D), w (H*D,E): the rows of head h make W_h (D,E).
///   dx_h = dy_h W_hᵀ,  dW_h = x_hᵀ dy_h
/// Of queries it makes the "general" score of Luong et al. 2015 (section 3.1), q W k, from the dot product.
Var head_products(Tape& tape, Var x, Var w, std::int64_t heads);

/// Low-rank attention's keys and values (Wang et al. 2020, 2006.04768, section 4): mixtures of a sequence's
/// rows, those of padding left out.  y(b) = e(:, :n) x(b, :n), n = lengths[b] or S  // (B,R,C); x (B,S,C), e
/// (R,P), S <= P; lengths (B) or null.
///   dx(b, :n) = e(:, :n)ᵀ dy(b),  de(:, :n) = sum_b dy(b) x(b, :n)ᵀ
Var sequence_projection(Tape& tape, Var x, Var e, const std::int32_t* lengths = nullptr);

/// tanh(x)  // (…,C). kernels/activation.hpp. Saves the result.
Var tanh(Tape& tape, Var x);

/// [a, b] along the last axis  // (B,T,M+N); a (B,T,M), b (B,T,N), of one type.
Var concatenate(Tape& tape, Var a, Var b);

/// The first row of each sequence  // (B,C); x (B,T,C).
Var first_position(Tape& tape, Var x);

/// The rotations of positions first_position + t  // (T,D), no gradient. kernels/rotary.hpp.
Var rotary_positions(Tape& tape, std::int64_t first_position, std::int64_t length, std::int64_t width,
                     double theta);

/// The heads of a query or key projection, normalised by their root mean square when there is a `gain` (D),
/// and turned by rotary positions when there is a `table` (T,D) (Su et al. 2021, 2104.09864). At least one of
/// both. x (B,T,C), which may be columns of the packed projection. kernels/rotary.hpp. Saves one number a
/// head; the result is made again in backward when it was consumed.
Var rotary(Tape& tape, Var x, std::int64_t heads, Var table, Var gain, float eps);

struct ResidualNorm {
  Var stream;  // stream + dropout(branch)
  Var normed;  // the stream's rows, normalised
};

/// Residual addition, dropout and LayerNorm or RMSNorm in one pass  // (…,C) both. kernels/norm.hpp. `branch`
/// may be none: then `stream` comes back as it is. The normalised rows are of `type`, the stream is f32.
/// Consumes the branch.
ResidualNorm residual_norm(Tape& tape, Var stream, Var branch, NormKind kind, Var gain, Var bias, float eps,
                           DropoutSite dropout, Type type = Type::f32);

/// activation(x W₁ᵀ + b₁) W₂ᵀ + b₂  // (…,C); w1 (F,C), w2 (C,F), b1 (F), b2 (C) or none. A gated activation
/// takes w1 (2F,C), b1 (2F): the rows of the gate, then those of the value. One operation: saves the
/// pre-activation and makes the hidden layer again, or saves relu's hidden layer. kernels/activation.hpp.
Var feed_forward(Tape& tape, Var x, Var w1, Var b1, Var w2, Var b2, Activation activation);

/// A recurrent layer over all steps as one operation (GRU, Cho et al. 2014, 1406.1078; LSTM, Hochreiter &
/// Schmidhuber 1997). kernels/recurrent.hpp. gates (B,T,G*C): what linear() makes of the input; w_hidden
/// (G*C,C), b_hidden (G*C) -> (B,T,C), of the type of gates. The options' lengths outlive the tape; with a
/// state the steps continue it, in inference. Saves the output, the gates' numbers and an LSTM's cells; the
/// gates that it was given may be consumed.
Var recurrent(Tape& tape, Var gates, Var w_hidden, Var b_hidden, Cell cell,
              const RecurrentOptions& options = {});

/// w_query (A,C), v (A), w_context (3C,M), w_hidden (3C,C), b_hidden (3C).
struct AttentionGruParameters {
  Var w_query, v, w_context, w_hidden, b_hidden;
};
struct AttentionGruStates {
  Var out, contexts;  // (B,T,C), (B,T,M)
};

/// A GRU that asks a memory at every step, over all steps as one operation (Bahdanau et al. 2014, 1409.0473,
/// appendix A). kernels/attention_gru.hpp. gates (B,T,3C): what linear() makes of the input; memory (B,S,M)
/// and keys (B,S,A), its projection; start (B,C) or none. Keys at or beyond `lengths` (B) are hidden; these
/// outlive the tape. With a state the steps continue it, in inference. `weights` (B,T,S), or null, gets the
/// weights, for looking at. Saves both outputs, the queries and the gates' numbers.
AttentionGruStates attention_gru(Tape& tape, Var gates, Var keys, Var memory, Var start,
                                 const AttentionGruParameters& parameters,
                                 const std::int32_t* lengths = nullptr, const RecurrentState& state = {},
                                 float* weights = nullptr);

/// What a batch's targets cost, as sums over the targets that count: in nats, or of values in squared errors.
struct Loss {
  double nll = 0;
  double smoothed = 0;  // equal to nll without label smoothing
  std::int64_t targets = 0;
};

/// The root of a language model or a classifier: logits = x Wᵀ in chunks of rows, cross-entropy against
/// `targets` (one a row of x, ignored_target counts nowhere), never (R,V) in memory. kernels/loss.hpp. x
/// (…,C), w (V,C). When recording, the gradients of sum(smoothed) / normaliser by x and w are written at
/// once: the root's backward is part of its forward, so that the logits are made once. `predictions` (R) or
/// null: the most likely class of each row.
Loss cross_entropy_head(Tape& tape, Var x, Var w, const std::int32_t* targets, double normaliser,
                        float label_smoothing, std::int32_t* predictions = nullptr);

/// The root of a regression: the sum of (y - values)^2; when recording, the gradient of sum / normaliser by y
/// is written at once. kernels/loss.hpp. y (R,1), values (R).
Loss squared_error(Tape& tape, Var y, const float* values, double normaliser);

}  // namespace quern
