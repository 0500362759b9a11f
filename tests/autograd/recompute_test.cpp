#include "quern/autograd/recompute.hpp"

#include "quern/kernels/elementwise.hpp"
#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

/// y = x * x, elementwise; counts its runs.
Var squared(Tape& tape, Var x, int* runs) {
  const Var y = tape.make({x.dim(0), x.dim(1)});
  ++*runs;
  for (std::int64_t i = 0; i < x.value().size(); ++i)
    y.value().f32()[i] = x.value().f32()[i] * x.value().f32()[i];
  tape.keep(x);
  tape.record("squared", {x}, {y}, [x, y](Tape& t) {
    const Sink to = t.sink(x);
    for (std::int64_t i = 0; i < x.shape().size(); ++i)
      to.to.f32()[i] = 2 * t.value(x).f32()[i] * t.grad(y).f32()[i] + (to.beta == 0 ? 0 : to.to.f32()[i]);
  });
  return y;
}

std::vector<float> numbers(const Tensor& t) { return {t.f32(), t.f32() + t.size()}; }

}  // namespace

TEST_CASE("a part is run once more in backward, and its inputs' gradients add to what is there") {
  Workspace workspace;
  std::vector<float> x = {1, 2}, y = {3, 4}, one = {1, 1};
  int runs = 0;
  Tape tape(workspace, Mode::train, {}, Recompute::block);
  const Var a = tape.leaf(Tensor(x.data(), {1, 2}), true), b = tape.leaf(Tensor(y.data(), {1, 2}), true);
  const auto [p, q] = recompute(tape, Recompute::block, {a, b}, [&runs](Tape& t, const RecomputeInputs& in) {
    const Var twice = squared(t, squared(t, in[0], &runs), &runs);  // x^4
    return RecomputeOutputs{twice, squared(t, in[1], &runs)};
  });
  const Var beside = squared(tape, a, &runs);
  CHECK(runs == 4);
  CHECK(numbers(p.value()) == std::vector<float>{1, 16});
  CHECK(numbers(q.value()) == std::vector<float>{9, 16});
  tape.seed(p, Tensor(one.data(), {1, 2}));
  tape.seed(beside, Tensor(one.data(), {1, 2}));
  tape.backward();
  CHECK(runs == 7);
  CHECK(numbers(tape.grad(a)) == std::vector<float>{4 + 2, 4 * 8 + 4});
  CHECK(!tape.grad(b));  // nothing reached q
}

TEST_CASE("a part that nobody wants again, or in Mode::infer, runs as it is") {
  std::vector<float> x = {1, 2};
  for (const auto& [mode, part] : {std::pair{Mode::train, Recompute::none},
                                   {Mode::train, Recompute::attention},
                                   {Mode::infer, Recompute::block}}) {
    Workspace workspace;
    int runs = 0;
    Tape tape(workspace, mode, {}, part);
    const Var a = tape.leaf(Tensor(x.data(), {1, 2}), true);
    const auto out = recompute(tape, Recompute::block, {a}, [&runs](Tape& t, const RecomputeInputs& in) {
      return RecomputeOutputs{squared(t, in[0], &runs)};
    });
    CHECK(!out[1]);
    CHECK(workspace.nodes.size() == (mode == Mode::train ? 1U : 0U));
    if (mode == Mode::train) CHECK(std::string(workspace.nodes[0].name) == "squared");
  }
}

TEST_CASE("what the part would have saved is free until backward") {
  Workspace workspace;
  std::vector<float> x(1000, 1.0F);
  int runs = 0;
  Tape tape(workspace, Mode::train, {}, Recompute::attention);
  const Var a = tape.leaf(Tensor(x.data(), {1, 1000}), true);
  const auto out = recompute(tape, Recompute::attention, {a}, [&runs](Tape& t, const RecomputeInputs& in) {
    Var y = in[0];
    for (int i = 0; i < 5; ++i) y = squared(t, y, &runs);
    return RecomputeOutputs{y};
  });
  static_cast<void>(out);
  CHECK(workspace.pool.bytes_in_use() < 2 * 4096);  // the output alone
}
