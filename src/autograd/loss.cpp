#include "quern/kernels/loss.hpp"

#include <algorithm>

#include "quern/autograd/ops.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern {
namespace {

/// Rows of one chunk: logits of about 32 MB, and not fewer rows than keep the weight gradient's product busy.
std::int64_t chunk_rows(std::int64_t vocabulary) {
  return std::clamp<std::int64_t>((std::int64_t{32} << 20) / (4 * vocabulary), 256, 4096);
}

/// The product that makes the logits and the pass over them; when recording, the two products of the
/// gradients too.  x (R,C), w (V,C)
Cost head_cost(const Mat& x, const Tensor& w, bool gradients) {
  const double R = static_cast<double>(x.rows), C = static_cast<double>(x.cols),
               V = static_cast<double>(w.dim[0]), product = 2 * R * C * V;
  const double operands = (R * C + V * C) * static_cast<double>(size_of(w.type));
  const Cost forward{product, operands + 3 * 4 * R * V};
  if (!gradients) return forward;
  return forward + Cost{2 * product, operands + 2 * static_cast<double>(size_of(w.type)) * R * V +
                                         static_cast<double>(size_of(x.type)) * R * C + 4 * V * C};
}

}  // namespace

Loss cross_entropy_head(Tape& tape, Var x, Var w, const std::int32_t* targets, double normaliser,
                        float label_smoothing, std::int32_t* predictions) {
  const Mat rows = x.value().mat();  // (R,C)
  const std::int64_t R = rows.rows, V = w.dim(0);
  QUERN_CHECK(w.shape().rank == 2 && w.dim(1) == rows.cols && normaliser > 0, w.dim(1), rows.cols,
              normaliser);
  const std::int64_t chunk = std::min(R, chunk_rows(V));
  const Scratch logits_block(tape, static_cast<std::size_t>(chunk * V));
  const Scratch row_scratch(tape, cross_entropy_rows_scratch(chunk));
  const auto scale = tape.recording() ? static_cast<float>(1 / normaliser) : 0.0F;
  const Sink dx = tape.recording() ? tape.sink(x) : Sink(), dw = tape.recording() ? tape.sink(w) : Sink();
  Loss total;
  const Running run = tape.run("cross_entropy_head", {head_cost(rows, w.operand(), tape.recording())});
  for (std::int64_t begin = 0; run && begin < R; begin += chunk) {
    const std::int64_t n = std::min(chunk, R - begin);
    const Tensor logits(logits_block.data(), {n, V});
    const Mat x_rows = rows.row_range(begin, n);
    gemm(logits.mat(), x_rows, w.operand().mat().t());
    if (predictions != nullptr) most_likely(logits, predictions + begin);
    const Type type = w.operand().type;
    const RowLoss loss =
        cross_entropy_rows(logits, targets + begin, label_smoothing, scale, row_scratch.span(), type);
    total.nll += loss.nll;
    total.smoothed += loss.smoothed;
    total.targets += loss.targets;
    if (!tape.recording()) continue;
    const Mat dlogits = gradient_of(logits, type);
    if (dx) gemm(dx.to.mat().row_range(begin, n), dlogits, w.operand().mat(), {.beta = dx.beta});
    if (dw) gemm(dw.to.mat(), dlogits.t(), x_rows, {.beta = begin == 0 ? dw.beta : 1});
  }
  return total;
}

Loss squared_error(Tape& tape, Var y, const float* values, double normaliser) {
  const std::int64_t R = y.shape().size();
  QUERN_CHECK(y.shape().last() == 1 && normaliser > 0, y.shape().last(), normaliser);
  const Sink dy = tape.recording() ? tape.sink(y) : Sink();
  QUERN_CHECK(dy.beta == 0, dy.beta);
  const double bytes = static_cast<double>(y.shape().bytes());
  Loss loss{0, 0, R};
  if (const Running run = tape.run("squared_error", {{0, 2 * bytes}, {}}))
    loss.nll = loss.smoothed =
        squared_error_rows(dy.to, y.value(), values, static_cast<float>(1 / normaliser));
  return loss;
}

}  // namespace quern
