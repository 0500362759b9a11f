// What the drivers of recurrent layers share: the parts of a scratch, a step's passes.
#pragma once

#include "quern/kernels/elementwise.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/kernels/recurrent.hpp"
#include "rows.hpp"

namespace quern::kernels {

/// Step t of (B,T,N) as a level sees it  // (B,N); none of none.
inline Rows rows_of_step(const Tensor& x, std::int64_t t) {
  return x ? rows_of_any(x.step(t), x.dim[0], x.dim[2]) : Rows{nullptr, 0, false};
}

/// (B,N) as a level sees it.
inline Rows rows_of_all(const Tensor& x) { return rows_of_any(x, x.dim[0], x.dim[1]); }

/// Tensors one behind another in a scratch. Without one they are counted only.
class Parts {
 public:
  explicit Parts(float* scratch) : scratch_(scratch) {}

  Tensor take(Type type, std::initializer_list<std::int64_t> shape) {
    Tensor part(nullptr, type, std::span(shape.begin(), shape.size()));
    part.data = floats((part.bytes() + 3) / 4).data();
    return part;
  }
  std::span<float> floats(std::int64_t n) {
    float* const begin = scratch_ != nullptr ? scratch_ + size_ : nullptr;
    size_ += static_cast<std::size_t>((n + 15) / 16 * 16);  // the next on a cache line of its own
    return {begin, static_cast<std::size_t>(n)};
  }
  std::size_t size() const { return size_; }

 private:
  float* scratch_;
  std::size_t size_ = 0;
};

inline void run_step(const RecurrentStep& a, std::int64_t B) {
  parallel_for(B, row_grain(4 * a.cols),
               [&](std::int64_t begin, std::int64_t end) { level().recurrent_step(a, begin, end); });
}

inline void run_step_backward(const RecurrentStepBackward& a, std::int64_t B) {
  parallel_for(B, row_grain(4 * a.cols),
               [&](std::int64_t begin, std::int64_t end) { level().recurrent_step_backward(a, begin, end); });
}

/// dW = sum_t d(t)ᵀ h(t-1), with `start` (B,C), or 0, before the first step; the numbers of that step in d
/// are used up. One product: rows of out (B,T,C), beside those of d (B,T,N) that follow them.
inline void state_weight_gradient(Sink dw, const Tensor& d, const Tensor& out, const Tensor& start,
                                  bool reverse) {
  if (!dw) return;
  const std::int64_t rows = d.rows() - 1;
  const Tensor first = d.step(reverse ? d.dim[1] - 1 : 0);
  if (start) {
    gemm(dw.to.mat(), first.mat().t(), start.mat(), {.beta = dw.beta});
    dw.beta = 1;
  }
  if (d.dim[1] == 1) {
    if (dw.beta == 0) fill(dw.to, 0);
    return;
  }
  fill(first, 0);  // beside the last state of the sequence before it
  gemm(dw.to.mat(), d.mat().row_range(reverse ? 0 : 1, rows).t(), out.mat().row_range(reverse ? 1 : 0, rows),
       {.beta = dw.beta});
}

}  // namespace quern::kernels
