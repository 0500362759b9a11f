#include "quern/kernels/adamw.hpp"

#include <cmath>

#include "rows.hpp"

namespace quern {

using namespace kernels;

Squares adamw_update(float* w, const float* g, float* m, float* v, std::int64_t n, const AdamW& adamw,
                     bf16* shadow) {
  QUERN_CHECK(adamw.step >= 1, adamw.step);
  // In double, from the betas as floats: 1 - beta and the corrections then belong to the same beta.
  const double lr = adamw.learning_rate, beta1 = adamw.beta1, beta2 = adamw.beta2;
  const double step = static_cast<double>(adamw.step);
  const AdamWStep a = {w,
                       m,
                       v,
                       reinterpret_cast<std::uint16_t*>(shadow),
                       g,
                       static_cast<float>(1 - lr * static_cast<double>(adamw.weight_decay)),
                       adamw.gradient_scale,
                       adamw.beta2,
                       static_cast<float>(1 - beta1),
                       static_cast<float>(1 - beta2),
                       static_cast<float>(lr / (1 - std::pow(beta1, step))),
                       static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step))),
                       adamw.eps,
                       nullptr,
                       nullptr};
  Squares parts[max_chunks], total;
  const std::int64_t grain = long_grain(n);
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    AdamWStep chunk = a;
    chunk.change = &parts[begin / grain].change;
    chunk.weights = &parts[begin / grain].weights;
    level().adamw(chunk, begin, end);
  });
  for (std::int64_t begin = 0; begin < n; begin += grain) total += parts[begin / grain];
  return total;
}

}  // namespace quern
