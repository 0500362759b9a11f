#include "columns.hpp"
#include "vmath.hpp"

namespace quern::kernels::QUERN_LEVEL {

void adamw(const AdamWStep& a, int64_t begin, int64_t end) {
  *a.change = *a.weights = 0;
  for (int64_t first = begin; first < end; first += 64 * lanes) {
    const int64_t stop = first + 64 * lanes < end ? first + 64 * lanes : end;
    vf change = {}, weights = {};
    columns(first, stop, [&](int64_t j, int64_t k) QUERN_LAMBDA {
      const vf g = a.gradient_scale * load_n(a.g + j, k), before = load_n(a.w + j, k);
      vf m = load_n(a.m + j, k), v = load_n(a.v + j, k);
      m += a.grow1 * (g - m);
      v = a.beta2 * v + a.grow2 * (g * g);
      const vf w = a.keep * before - a.step_size * m / (sqrt(v) * a.denominator + a.eps);
      store_n(a.m + j, m, k);
      store_n(a.v + j, v, k);
      store_n(a.w + j, w, k);
      if (a.shadow != nullptr) store_n(a.shadow + j, w, k);
      const vf moved = only(w - before, k);
      change += moved * moved;
      weights += before * before;
    });
    *a.change += static_cast<double>(sum(change));
    *a.weights += static_cast<double>(sum(weights));
  }
}

}  // namespace quern::kernels::QUERN_LEVEL
