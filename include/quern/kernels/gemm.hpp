// The matrix product, the whole seam to oneDNN. Every product of the engine reads as algebra over strided
// views:
//   Y = X Wᵀ + b       gemm(Y, X, W.t(), {.bias = b})
//   dX = dY W          gemm(dX, dY, W)
//   dW = dYᵀ X         gemm(dW, dY.t(), X)
#pragma once

#include <cstdint>
#include <string>

#include "quern/kernels/tensor.hpp"

namespace quern {

struct GemmOptions {
  float beta = 0;               // c = a·b + bias + beta·c; with 0 whatever c held is overwritten, NaN too
  const float* bias = nullptr;  // (N), added to every row
};

/// c (M,N) = a (M,K) · b (K,N) + bias + beta · c. Rows or columns of each operand must be dense (one stride
/// is 1). Sums in f32. oneDNN's matmul behind a cache of primitives by shape; a product of at most 4 rows
/// with a transposed matrix, which is what decoding does, reads that matrix once by a kernel of ours. When
/// one of a and b is bf16 the other is rounded to bf16 first, and c may be either type; when both are f32, so
/// is c.
void gemm(Mat c, Mat a, Mat b, const GemmOptions& options = {});

/// The same product by three plain loops that add in order of k: the oracle, and what a platform without
/// oneDNN uses.
void gemm_reference(Mat c, Mat a, Mat b, const GemmOptions& options = {});

/// Whether this processor multiplies bf16 numbers (AVX-512, AMX). Without, gemm converts them to f32: the
/// same sums, slower.
bool gemm_has_bf16();

/// oneDNN's own version, "2.6.3".
std::string gemm_library_version();

}  // namespace quern
