// The weights that linear attention never makes, for looking at.
#include "quern/autograd/ops.hpp"
#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;

TEST_CASE("linear attention's weights mix the values to its output, and a causal row sees no later key") {
  constexpr std::int64_t B = 2, S = 5, D = 3;  // more keys than D
  constexpr std::int64_t H = 4, shared = 2;    // heads, and how many of them read a key head
  std::vector<float> q = normal(B * S * H * D, 1), k = normal(B * S * H / shared * D, 2),
                     v = normal(B * S * H / shared * D, 3);
  for (const bool causal : {false, true}) {
    Workspace workspace;
    Tape tape(workspace, Mode::infer);
    const std::int64_t wide[] = {B, S, H * D}, narrow[] = {B, S, H / shared * D};
    const Var Q = tape.leaf(Tensor(q.data(), Type::f32, wide)),
              K = tape.leaf(Tensor(k.data(), Type::f32, narrow)),
              V = tape.leaf(Tensor(v.data(), Type::f32, narrow));
    const Tensor out = linear_attention(tape, Q, K, V, Var(), H, H / shared, causal).value().split_last(H);
    for (std::int64_t h = 0; h < H; ++h) {
      const std::vector<float> weights =
          linear_attention_weights(tape, Q, K, Var(), H, H / shared, causal, h);
      for (std::int64_t b = 0; b < B; ++b)
        for (std::int64_t t = 0; t < S; ++t) {
          CAPTURE(causal, h, b, t);
          const float* row = weights.data() + (b * S + t) * S;
          double total = 0, mixed[D] = {};
          for (std::int64_t s = 0; s < S; ++s) {
            CHECK((causal && s > t ? row[s] == 0 : row[s] > 0));
            total += row[s];
            for (std::int64_t d = 0; d < D; ++d)
              mixed[d] += double{row[s]} *
                          v[static_cast<std::size_t>(((b * S + s) * H / shared + h / shared) * D + d)];
          }
          // A few roundings of sums of five.
          CHECK(std::abs(total - 1) < 2e-6);
          for (std::int64_t d = 0; d < D; ++d)
            CHECK(std::abs(mixed[d] -
                           out.f32()[b * out.stride[0] + t * out.stride[1] + h * out.stride[2] + d]) < 2e-6);
        }
    }
  }
}
