#include "columns.hpp"

namespace quern::kernels::QUERN_LEVEL {

void fill(const Fill& a, int64_t begin, int64_t end) {
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA { store_n(a.to + j, broadcast(a.value), k); });
}

void add_scaled(const AddScaled& a, int64_t begin, int64_t end) {
  columns(begin, end, [&](int64_t j, int64_t k) QUERN_LAMBDA {
    sink_n(a.to + j, a.factor * load_n(a.x + j, k), a.beta, k);
  });
}

}  // namespace quern::kernels::QUERN_LEVEL
