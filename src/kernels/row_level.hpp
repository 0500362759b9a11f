// The row kernels of a level: norms, activations, loss, embedding, AdamW, sums. Plain types only.
#pragma once

#include <stdint.h>

#include "dropout_level.hpp"

namespace quern::kernels {

/// Row r lies at data + r * stride, in elements; null: none. The elements are floats, or the 16 bits of
/// bfloat16 where a kernel says that it takes both.
struct Rows {
  void* data;
  int64_t stride;
  bool half;
};

struct NormForward {
  Rows x, h, stream, branch;  // (R,C); h and branch of either type
  float *mean, *rstd;         // (R); mean null: RMSNorm
  const float *gain, *bias;   // (C)
  float eps;
  int64_t cols;
  DropoutKey dropout;
};

struct NormBackward {
  Rows dstream, dbranch;  // (R,C); dbranch and dh of either type
  float dstream_beta, dbranch_beta;
  Rows dx, dh, x;            // (R,C)
  const float *mean, *rstd;  // (R); mean null: RMSNorm
  const float* gain;         // (C)
  float* sums;  // dgain and dbias of the rows [begin, end): (2,C), set to zero by the caller; may be null
  int64_t cols;
  DropoutKey dropout;
};

enum class Function : int { gelu, gelu_erf, relu, relu2, silu, exp, tanh, erf, erfc };

/// y = f(x) * by
struct Map {
  Rows y, x, by;  // one type; by may be none: 1
  Function function;
};

/// dx = dy * by * f'(x), dby = dy * f(x), y = f(x) * by
struct MapBackward {
  Rows dx, dby, y, dy, x, by;  // one type; y may be none, by and dby both
  Function function;
};

/// dx = dy * (1 - y^2) + beta * dx
struct TanhBackward {
  Rows dx, dy, y;  // dx of either type, the others of one
  float beta;
};

/// to = dropout(x) + beta * to
struct Drop {
  Rows to, x;  // (R,C), each of either type
  float beta;
  int64_t cols;
  DropoutKey dropout;
};

struct Rotary {
  Rows y, x;           // (R,H*D), one type; in backward y is dy, and x may be none
  const float* table;  // (T,D): cosines, then sines; null: no rotation
  const float* gain;   // (D); null: no norm
  float* rstd;         // (R,H)
  float eps;
  int64_t length, heads, width;  // T, H, D
};

struct RotaryBackward {
  Rotary forward;
  Rows dx;  // none: not wanted
  float beta;
  float* sums;  // dgain of the rows [begin, end): (D), set to zero by the caller; may be null
};

struct Loss {
  Rows logits;             // (R,V)
  const int32_t* targets;  // (R), negative: ignored
  float smoothing, gradient_scale;
  bool half_gradient;     // as bfloat16, in the first half of each row of logits
  float *nll, *smoothed;  // (R)
  int64_t cols;
};

struct Embedding {
  float* out;             // (B,T,C)
  const int32_t* ids;     // (B,T)
  const float* table;     // (V,C)
  const float* places;    // (T,C), the row of the first position on; null: none
  const int32_t* starts;  // (B,T): the position of row r is r % length - starts[r]; null: 0
  float scale;
  int64_t length, cols;  // T, C
  DropoutKey dropout;
};

struct EmbeddingBackward {
  float *dtable, *dplaces;  // as in Embedding; added to; null: none
  const float* dout;        // (B,T,C)
  const int32_t* ids;       // (B,T)
  const int32_t* starts;    // as in Embedding
  float scale;
  int64_t rows, length, cols;  // B * T, T, C
  DropoutKey dropout;
};

struct AdamWStep {
  float *w, *m, *v;
  uint16_t* shadow;  // w in bfloat16; null: none
  const float* g;
  float keep;  // 1 - learning_rate * weight_decay
  float gradient_scale;
  float beta2, grow1, grow2;     // beta2, 1 - beta1, 1 - beta2
  float step_size, denominator;  // learning_rate / (1 - beta1^step), 1 / sqrt(1 - beta2^step)
  float eps;
  double *change, *weights;  // of begin to end: the squares of the change and of w before it, summed
};

struct Sum {
  const float* x;
  double* result;
};

struct Find {
  const float* x;
  int64_t* result;  // -1: none
};

struct ColumnSum {
  Rows x;       // (R,C), of either type
  float* sums;  // (C), set to zero by the caller
  int64_t cols;
};

struct Fill {
  Rows to;  // of either type
  float value;
};

/// to = factor * x + beta * to; with factor 1 nothing but the types' rounding comes between.
struct AddScaled {
  Rows to, x;  // each of either type
  float factor, beta;
};

constexpr int few_rows_most = 4;

/// y = x wᵀ + bias + beta y for a few rows of x.
struct FewRows {
  const float* x;  // (rows, depth)
  int64_t x_stride, rows;
  const void* w;  // (N, depth), floats, or bfloat16 when `half`
  bool half;
  int64_t w_stride, depth;
  Rows y;             // (rows, N), of either type
  const float* bias;  // (N) or null
  float beta;
};

}  // namespace quern::kernels

/// [begin, end) are rows, except: channels for embedding_backward; elements of row 0 for map, map_backward,
/// tanh_backward, fill and add_scaled; columns of y for few_rows; elements for those on plain pointers.
#define QUERN_LEVEL_ROW_KERNELS(X)                                                \
  X(norm_forward, (const NormForward& a, int64_t begin, int64_t end))             \
  X(norm_backward, (const NormBackward& a, int64_t begin, int64_t end))           \
  X(map, (const Map& a, int64_t begin, int64_t end))                              \
  X(map_backward, (const MapBackward& a, int64_t begin, int64_t end))             \
  X(tanh_backward, (const TanhBackward& a, int64_t begin, int64_t end))           \
  X(drop, (const Drop& a, int64_t begin, int64_t end))                            \
  X(rotary_forward, (const Rotary& a, int64_t begin, int64_t end))                \
  X(rotary_backward, (const RotaryBackward& a, int64_t begin, int64_t end))       \
  X(loss, (const Loss& a, int64_t begin, int64_t end))                            \
  X(embedding_forward, (const Embedding& a, int64_t begin, int64_t end))          \
  X(embedding_backward, (const EmbeddingBackward& a, int64_t begin, int64_t end)) \
  X(adamw, (const AdamWStep& a, int64_t begin, int64_t end))                      \
  X(sum_of_squares, (const Sum& a, int64_t begin, int64_t end))                   \
  X(first_nonfinite, (const Find& a, int64_t begin, int64_t end))                 \
  X(column_sum, (const ColumnSum& a, int64_t begin, int64_t end))                 \
  X(fill, (const Fill& a, int64_t begin, int64_t end))                            \
  X(add_scaled, (const AddScaled& a, int64_t begin, int64_t end))                 \
  X(few_rows, (const FewRows& a, int64_t begin, int64_t end))
