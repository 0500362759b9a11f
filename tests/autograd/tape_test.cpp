#include "quern/autograd/tape.hpp"

#include "quern/autograd/ops.hpp"
#include "quern/kernels/elementwise.hpp"
#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

/// y = factor * x, an operation of two lines.
Var scaled(Tape& tape, Var x, float factor) {
  const Var y = tape.make({x.dim(0), x.dim(1)});
  add_scaled({y.value(), 0}, x.value(), factor);
  tape.record("scaled", {x}, {y}, [x, y, factor](Tape& t) { add_scaled(t.sink(x), t.grad(y), factor); });
  return y;
}

std::vector<float> numbers(const Tensor& t) { return {t.f32(), t.f32() + t.size()}; }

}  // namespace

TEST_CASE("a slot with several consumers sums their gradients, first writer overwrites") {
  Workspace workspace;
  std::vector<float> x = {1, 2}, one = {1, 1};
  Tape tape(workspace, Mode::train);
  const Var leaf = tape.leaf(Tensor(x.data(), {1, 2}), true);
  const Var a = scaled(tape, leaf, 2), b = scaled(tape, leaf, 3), c = scaled(tape, leaf, 5);
  tape.seed(a, Tensor(one.data(), {1, 2}));
  tape.seed(b, Tensor(one.data(), {1, 2}));
  static_cast<void>(c);  // nothing reached c: an exact zero
  tape.backward();
  CHECK(numbers(tape.grad(leaf)) == std::vector<float>{5, 5});
}

TEST_CASE("a node whose outputs received nothing is skipped and leaves inputs unwritten") {
  Workspace workspace;
  std::vector<float> x = {1, 2};
  Tape tape(workspace, Mode::train);
  const Var leaf = tape.leaf(Tensor(x.data(), {1, 2}), true);
  scaled(tape, leaf, 2);
  tape.backward();
  CHECK(!tape.grad(leaf));
}

TEST_CASE("a frozen input has an empty sink, and what follows from frozen inputs alone is not recorded") {
  Workspace workspace;
  std::vector<float> x = {1, 2};
  Tape tape(workspace, Mode::train);
  const Var frozen = tape.leaf(Tensor(x.data(), {1, 2}));
  const Var y = scaled(tape, frozen, 2);
  CHECK(!tape.sink(frozen));
  CHECK(!y.needs_grad());
  CHECK(workspace.nodes.empty());
}

TEST_CASE("parts of a buffer: each has its own state, what nobody wrote becomes zero") {
  Workspace workspace;
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, one = {1, 1};
  Tape tape(workspace, Mode::train);
  const Var leaf = tape.leaf(Tensor(x.data(), {1, 6}), true);
  const Var packed = scaled(tape, leaf, 10);
  const Var q = tape.columns(packed, 0, 2), k = tape.columns(packed, 2, 2), v = tape.columns(packed, 4, 2);
  CHECK(numbers(Tensor(q.value().f32(), {1, 2})) == std::vector<float>{10, 20});
  tape.seed(scaled(tape, q, 2), Tensor(one.data(), {1, 2}));
  tape.seed(scaled(tape, v, 3), Tensor(one.data(), {1, 2}));
  static_cast<void>(k);
  tape.backward();
  CHECK(numbers(tape.grad(leaf)) == std::vector<float>{20, 20, 0, 0, 30, 30});
}

TEST_CASE("parts that do not tile their owner are a bug") {
  Workspace workspace;
  std::vector<float> x = {1, 2, 3}, one = {1};
  Tape tape(workspace, Mode::train);
  const Var packed = scaled(tape, tape.leaf(Tensor(x.data(), {1, 3}), true), 1);
  tape.seed(scaled(tape, tape.columns(packed, 0, 1), 2), Tensor(one.data(), {1, 1}));
  CHECK_THROWS_AS(tape.backward(), Bug);
}

TEST_CASE("an output's gradient buffer is handed on to its only input, and only then") {
  Workspace workspace;
  std::vector<float> x = {1, 2}, one = {1, 1};
  Tape tape(workspace, Mode::train);
  const Var leaf = tape.leaf(Tensor(x.data(), {1, 2}), true);
  const Var y = scaled(tape, leaf, 2), other = scaled(tape, leaf, 3);
  tape.seed(y, Tensor(one.data(), {1, 2}));
  const void* buffer = tape.grad(y).data;
  const Sink handed = tape.hand_over(y, leaf);
  CHECK(handed.to.data == buffer);
  CHECK(handed.beta == 0);
  tape.seed(other, Tensor(one.data(), {1, 2}));
  const Sink added = tape.hand_over(other, leaf);  // leaf has one already
  CHECK(added.to.data == buffer);
  CHECK(added.beta == 1);
}

TEST_CASE("a consumed value is gone unless a closure kept it") {
  Workspace workspace;
  std::vector<float> x = {1, 2};
  Tape tape(workspace, Mode::train);
  const Var leaf = tape.leaf(Tensor(x.data(), {1, 2}), true);
  const Var gone = scaled(tape, leaf, 2), kept = scaled(tape, leaf, 2);
  tape.keep(kept);
  tape.consume(gone);
  tape.consume(kept);
  CHECK_THROWS_AS(gone.value(), Bug);
  CHECK(gone.dim(1) == 2);
  CHECK(numbers(kept.value()) == std::vector<float>{2, 4});
}

TEST_CASE("inference records nothing and drops nothing out") {
  Workspace workspace;
  std::vector<float> x = {1, 2};
  Tape tape(workspace, Mode::infer);
  scaled(tape, tape.leaf(Tensor(x.data(), {1, 2}), true), 2);
  CHECK(workspace.nodes.empty());
  CHECK(!tape.dropout(1, 0.5, 8));
}

TEST_CASE("a step after the first takes nothing new from the system and gives everything back") {
  Workspace workspace;
  std::vector<float> x = normal(4096, 1), w = normal(64 * 64, 2);
  std::size_t held = 0;
  for (int step = 0; step < 3; ++step) {
    {
      Tape tape(workspace, Mode::train);
      Var h = tape.leaf(Tensor(x.data(), {1, 64, 64}), true);
      const Var weight = tape.leaf(Tensor(w.data(), {64, 64}), true);
      for (int layer = 0; layer < 4; ++layer) h = linear(tape, h, weight, Var());
      tape.seed(h, Tensor(x.data(), {1, 64, 64}));
      tape.backward();
    }
    CHECK(workspace.pool.bytes_in_use() == 0);
    if (step == 0) held = workspace.pool.bytes_held();
    CHECK(workspace.pool.bytes_held() == held);
  }
}

TEST_CASE("backward returns activations as it passes them: gradients reuse their memory") {
  Workspace workspace;
  std::vector<float> x = normal(4096, 1), w = normal(64 * 64, 2);
  Tape tape(workspace, Mode::train);
  Var h = tape.leaf(Tensor(x.data(), {1, 64, 64}), true);
  const Var weight = tape.leaf(Tensor(w.data(), {64, 64}), true);
  for (int layer = 0; layer < 16; ++layer) h = linear(tape, h, weight, Var());
  const std::size_t forward = workspace.pool.bytes_held();
  tape.seed(h, Tensor(x.data(), {1, 64, 64}));
  tape.backward();
  // Of size (64,64): two gradients of activations at a time, the weight's, and none more.
  CHECK(workspace.pool.bytes_held() <= forward + 4 * 64 * 64 * sizeof(float));
}

TEST_CASE("a consumed value that can be made again comes back in backward, and only then takes memory") {
  Workspace workspace;
  std::vector<float> x = {1, 2}, one = {1, 1};
  Tape tape(workspace, Mode::train);
  const Var leaf = tape.leaf(Tensor(x.data(), {1, 2}), true);
  const Var y = scaled(tape, leaf, 3);
  tape.refillable(y, [leaf, y](Tape&) { add_scaled({y.value(), 0}, leaf.value(), 3); });
  const std::size_t before = workspace.pool.bytes_in_use();
  tape.keep(y);
  tape.consume(y);
  CHECK(workspace.pool.bytes_in_use() < before);
  CHECK_THROWS_AS(y.value(), Bug);
  CHECK(numbers(tape.value(y)) == std::vector<float>{3, 6});
  CHECK(workspace.pool.bytes_in_use() == before);
}
