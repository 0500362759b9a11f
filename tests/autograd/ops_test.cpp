// The gradients of the operations through the tape, by dual numbers; the kernels' own tests hold the awkward
// sizes.
#include "quern/autograd/ops.hpp"

#include <algorithm>
#include <functional>

#include "reference/activation.hpp"
#include "reference/affine.hpp"
#include "reference/check.hpp"
#include "reference/dual.hpp"
#include "reference/embedding.hpp"
#include "reference/norm.hpp"
#include "reference/rotary.hpp"
#include "reference/sequences.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

template <class T>
using Numbers = std::vector<T>;

using Inputs = std::vector<std::vector<float>>;
template <class T>
using Formula = std::function<Numbers<T>(const std::vector<Numbers<T>>&)>;

/// d sum(weights * f(inputs)) / d inputs[which][i], exactly.
double derivative(const Formula<Dual>& f, const Inputs& inputs, const std::vector<float>& weights,
                  std::size_t which, std::size_t i) {
  std::vector<Numbers<Dual>> dual;
  for (const auto& input : inputs) dual.emplace_back(input.begin(), input.end());
  dual[which][i].slope = 1;
  const auto y = f(dual);
  double sum = 0;
  for (std::size_t j = 0; j < y.size(); ++j) sum += weights[j] * y[j].slope;
  return sum;
}

/// Every gradient of `op` against the formula's derivatives. f32 products of some ten terms: 1e-5 of the
/// tensor's scale leaves a factor of ten.
void check_gradients(const Inputs& inputs, const std::vector<std::vector<std::int64_t>>& shapes,
                     const std::function<Var(Tape&, const std::vector<Var>&)>& op, const Formula<Dual>& f) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  std::vector<Var> vars;
  Inputs copies = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    vars.push_back(copies[i].empty() ? Var()
                                     : tape.leaf(Tensor(copies[i].data(), Type::f32, shapes[i]), true));
  const Var y = op(tape, vars);
  std::vector<float> weights = normal(y.value().size(), 99);
  Tensor upstream = y.value();
  upstream.data = weights.data();
  tape.seed(y, upstream);
  tape.backward();
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    if (!vars[which]) continue;
    CAPTURE(which);
    std::vector<double> wanted;
    for (std::size_t i = 0; i < inputs[which].size(); ++i)
      wanted.push_back(derivative(f, inputs, weights, which, i));
    const float* got = tape.grad(vars[which]).f32();
    CHECK(relative_error(std::vector<float>(got, got + wanted.size()), wanted) < 1e-5);
  }
}

/// (6,6)
Tensor unit() {
  static std::vector<float> numbers = [] {
    std::vector<float> all(36);
    for (std::size_t i = 0; i < 6; ++i) all[7 * i] = 1;
    return all;
  }();
  const std::int64_t shape[] = {6, 6};
  return Tensor(numbers.data(), Type::f32, shape);
}

}  // namespace

TEST_CASE("linear's gradients by dual numbers, with and without bias") {
  for (const bool bias : {false, true}) {
    const Inputs inputs = {normal(2 * 3 * 5, 1), normal(7 * 5, 2),
                           bias ? normal(7, 3) : std::vector<float>{}};
    check_gradients(
        inputs, {{2, 3, 5}, {7, 5}, {7}},
        [](Tape& t, const std::vector<Var>& v) { return linear(t, v[0], v[1], v[2]); },
        [](const std::vector<Numbers<Dual>>& v) { return affine(v[0], v[1], v[2], 5); });
  }
}

TEST_CASE("linear over some rows of its weight: the others' gradient is 0, and several parts add up") {
  const auto rows = [](const Numbers<Dual>& x, std::size_t begin, std::size_t end) {
    return Numbers<Dual>(x.begin() + std::ptrdiff_t(begin), x.begin() + std::ptrdiff_t(end));
  };
  const Inputs inputs = {normal(2 * 3 * 5, 1), normal(7 * 5, 2), normal(7, 3), normal(2 * 2, 4)};
  check_gradients(
      inputs, {{2, 3, 5}, {7, 5}, {7}, {2, 2}},
      [](Tape& t, const std::vector<Var>& v) {
        return linear(t, linear(t, v[0], v[1], v[2], std::nullopt, {3, 2}), v[3], Var());
      },
      [rows](const std::vector<Numbers<Dual>>& v) {
        return affine(affine(v[0], rows(v[1], 15, 25), rows(v[2], 3, 5), 5), v[3], {}, 2);
      });
  check_gradients(
      {inputs[0], normal(7 * 5, 2), inputs[2]}, {{2, 3, 5}, {7, 5}, {7}},
      [](Tape& t, const std::vector<Var>& v) {  // the 5 last rows read what the 5 before them wrote
        return linear(t, linear(t, v[0], v[1], v[2], std::nullopt, {1, 5}), v[1], v[2], std::nullopt, {2, 5});
      },
      [rows](const std::vector<Numbers<Dual>>& v) {
        return affine(affine(v[0], rows(v[1], 5, 30), rows(v[2], 1, 6), 5), rows(v[1], 10, 35),
                      rows(v[2], 2, 7), 5);
      });
}

namespace {

/// Of C = 4 to F hidden numbers and back.
void check_feed_forward(std::int64_t F, Activation activation, bool bias) {
  CAPTURE(F, static_cast<int>(activation), bias);
  const std::int64_t up = is_gated(activation) ? 2 * F : F;
  const Inputs inputs = {normal(2 * 3 * 4, 1), normal(up * 4, 2), bias ? normal(up, 3) : std::vector<float>{},
                         normal(4 * F, 4), bias ? normal(4, 5) : std::vector<float>{}};
  check_gradients(
      inputs, {{2, 3, 4}, {up, 4}, {up}, {4, F}, {4}},
      [activation](Tape& t, const std::vector<Var>& v) {
        return feed_forward(t, v[0], v[1], v[2], v[3], v[4], activation);
      },
      [activation, F](const std::vector<Numbers<Dual>>& v) {
        return affine(hidden(affine(v[0], v[1], v[2], 4), F, activation), v[3], v[4], F);
      });
}

}  // namespace

TEST_CASE("feed_forward's gradients by dual numbers, for each activation, with and without biases") {
  for (const Activation activation :
       {Activation::gelu, Activation::gelu_erf, Activation::relu, Activation::relu2, Activation::silu,
        Activation::swiglu, Activation::geglu})
    for (const bool bias : {false, true}) check_feed_forward(9, activation, bias);
}

TEST_CASE("feed_forward's gradients where its rows are spaced in memory") {
  for (const Activation activation : {Activation::gelu, Activation::relu, Activation::swiglu})
    check_feed_forward(128, activation, true);
}

TEST_CASE(
    "rotary's gradients by dual numbers, on columns of a projection, made again after it was consumed") {
  for (const bool norm : {false, true}) {
    CAPTURE(norm);
    const Inputs inputs = {normal(2 * 3 * 5, 1), normal(8 * 5, 2), norm ? normal(4, 3) : std::vector<float>{},
                           normal(2 * 8, 4)};
    check_gradients(
        inputs, {{2, 3, 5}, {8, 5}, {4}, {2, 8}},
        [](Tape& t, const std::vector<Var>& v) {
          const Var packed = linear(t, v[0], v[1], Var());
          const Var y = rotary(t, t.columns(packed, 0, 8), 2, rotary_positions(t, 7, 3, 4, 100), v[2], 0.1F);
          const Var z = linear(t, y, v[3], Var());
          t.consume(y);
          return z;
        },
        [](const std::vector<Numbers<Dual>>& v) {
          return affine(reference::rotary(affine(v[0], v[1], {}, 5), v[2], 4, 2, 3, 7, 100, double(0.1F)),
                        v[3], {}, 8);
        });
  }
}

TEST_CASE("a branch that joins the stream: one tensor read by two operations sums both gradients") {
  const Inputs inputs = {normal(2 * 3 * 4, 1), normal(4 * 4, 2), normal(4 * 4, 3)};
  check_gradients(
      inputs, {{2, 3, 4}, {4, 4}, {4, 4}},
      [](Tape& t, const std::vector<Var>& v) {
        const Var h = linear(t, v[0], v[1], Var());
        return linear(t, linear(t, h, v[2], Var()), v[1], Var());
      },
      [](const std::vector<Numbers<Dual>>& v) {
        return affine(affine(affine(v[0], v[1], {}, 4), v[2], {}, 4), v[1], {}, 4);
      });
}

TEST_CASE("the loss head in chunks: sums and gradients do not depend on how rows are cut") {
  // R = 600 rows of V = 40000 tokens make chunks of 256; the same rows one by one are the reference.
  constexpr std::int64_t R = 600, C = 2, V = 40000;
  const std::vector<float> x = normal(R * C, 1), w = normal(V * C, 2);
  std::vector<std::int32_t> targets(R);
  for (std::size_t r = 0; r < targets.size(); ++r)
    targets[r] = r % 7 == 0 ? -1 : static_cast<std::int32_t>(r * 61 % V);
  Workspace workspace;
  std::vector<float> xs = x, ws = w;
  Tape tape(workspace, Mode::train);
  const Var all = tape.leaf(Tensor(xs.data(), {1, R, C}), true),
            table = tape.leaf(Tensor(ws.data(), {V, C}), true);
  const Loss whole = cross_entropy_head(tape, all, table, targets.data(), 10, 0.1F);
  Loss pieces;
  Tape other(workspace, Mode::train);
  const Var table2 = other.leaf(Tensor(ws.data(), {V, C}), true);
  std::vector<float> dx;
  for (std::int64_t r = 0; r < R; r += 100) {
    const Var rows = other.leaf(Tensor(xs.data() + r * C, {1, 100, C}), true);
    const Loss part = cross_entropy_head(other, rows, table2, targets.data() + r, 10, 0.1F);
    pieces.nll += part.nll;
    pieces.smoothed += part.smoothed;
    pieces.targets += part.targets;
    const float* g = other.grad(rows).f32();
    dx.insert(dx.end(), g, g + 100 * C);
  }
  CHECK(whole.targets == pieces.targets);
  CHECK(whole.nll == Approx(pieces.nll).epsilon(1e-6));
  CHECK(whole.smoothed == Approx(pieces.smoothed).epsilon(1e-6));
  const float* g = tape.grad(all).f32();
  CHECK(relative_error(std::vector<float>(g, g + R * C), dx) < 1e-5);
  const float *a = tape.grad(table).f32(), *b = other.grad(table2).f32();
  CHECK(relative_error(std::vector<float>(a, a + V * C), std::vector<float>(b, b + V * C)) < 1e-5);
}

TEST_CASE("sequence_projection's gradients by dual numbers, with padding and without, from packed columns") {
  const std::vector<std::int32_t> all = {4, 4, 4}, some = {4, 1, 0};
  for (const auto& lengths : {all, some}) {
    const std::int32_t* padding = lengths == all ? nullptr : lengths.data();
    const Inputs inputs = {normal(3 * 4 * 5, 1), normal(2 * 6, 2)};
    check_gradients(
        inputs, {{3, 4, 5}, {2, 6}},
        [padding](Tape& t, const std::vector<Var>& v) { return sequence_projection(t, v[0], v[1], padding); },
        [&](const std::vector<Numbers<Dual>>& v) {
          return reference::sequence_projection(v[0], v[1], lengths, 4, 5, 6);
        });
    check_gradients(  // both halves of one tensor by one mixture: the second writer adds
        {normal(3 * 4 * 6, 1), normal(2 * 6, 2)}, {{3, 4, 6}, {2, 6}},
        [padding](Tape& t, const std::vector<Var>& v) {
          const Var copy = linear(t, v[0], t.leaf(unit(), false), Var());
          return concatenate(t, sequence_projection(t, t.columns(copy, 0, 3), v[1], padding),
                             sequence_projection(t, t.columns(copy, 3, 3), v[1], padding));
        },
        [&](const std::vector<Numbers<Dual>>& v) {
          return reference::sequence_projection(v[0], v[1], lengths, 4, 6, 6);
        });
  }
}

TEST_CASE("first_position's and concatenate's gradients by dual numbers, first writers and second ones") {
  check_gradients(
      {normal(3 * 4 * 5, 1)}, {{3, 4, 5}},
      [](Tape& t, const std::vector<Var>& v) { return first_position(t, v[0]); },
      [](const std::vector<Numbers<Dual>>& v) { return reference::first_position(v[0], 4, 5); });
  check_gradients(
      {normal(2 * 3 * 2, 1), normal(2 * 3 * 4, 2)}, {{2, 3, 2}, {2, 3, 4}},
      [](Tape& t, const std::vector<Var>& v) { return concatenate(t, v[0], v[1]); },
      [](const std::vector<Numbers<Dual>>& v) { return reference::concatenate(v[0], v[1], 2, 4); });
  check_gradients(
      {normal(2 * 3 * 2, 1)}, {{2, 3, 2}},
      [](Tape& t, const std::vector<Var>& v) {
        return first_position(t, concatenate(t, v[0], concatenate(t, v[0], v[0])));
      },
      [](const std::vector<Numbers<Dual>>& v) {
        return reference::first_position(
            reference::concatenate(v[0], reference::concatenate(v[0], v[0], 2, 2), 2, 4), 3, 6);
      });
}

TEST_CASE("embedding's gradients by dual numbers, with and without positions") {
  const std::vector<std::int32_t> ids = {4, 0, 4, 2, 4, 0};
  for (const bool positions : {false, true})
    check_gradients(
        {normal(5 * 4, 1), positions ? normal(6 * 4, 2) : std::vector<float>{}}, {{5, 4}, {6, 4}},
        [&ids](Tape& t, const std::vector<Var>& v) {
          return embedding(t, {ids.data(), 2, 3}, v[0], 1.5F, v[1], 2, {});
        },
        [&ids](const std::vector<Numbers<Dual>>& v) {
          return reference::embedding(ids, 3, v[0], 4, 1.5, v[1], 2, {});
        });
}

TEST_CASE("residual_norm's gradients by dual numbers: of both results, with and without a branch") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const bool branch : {false, true}) {
      CAPTURE(static_cast<int>(kind), branch);
      const bool bias = kind == NormKind::layernorm;
      check_gradients(
          {normal(2 * 3 * 5, 1), branch ? normal(2 * 3 * 5, 2) : std::vector<float>{}, normal(5, 3),
           bias ? normal(5, 4) : std::vector<float>{}},
          {{2, 3, 5}, {2, 3, 5}, {5}, {5}},
          [kind](Tape& t, const std::vector<Var>& v) {
            const auto [stream, normed] = residual_norm(t, v[0], v[1], kind, v[2], v[3], 1e-5F, {});
            return concatenate(t, stream, normed);
          },
          [kind](const std::vector<Numbers<Dual>>& v) {
            const auto both = reference::residual_norm(v[0], v[1], v[2], v[3], 1e-5, {}, kind);
            return reference::concatenate(both.x, both.h, 5, 5);
          });
    }
}

TEST_CASE("tanh's gradient by dual numbers, of rows and of sequences, a first writer and a second one") {
  check_gradients(
      {normal(3 * 5, 1)}, {{3, 5}}, [](Tape& t, const std::vector<Var>& v) { return tanh(t, v[0]); },
      [](const std::vector<Numbers<Dual>>& v) { return reference::tanh_of(v[0]); });
  check_gradients(
      {normal(2 * 3 * 2, 1)}, {{2, 3, 2}},
      [](Tape& t, const std::vector<Var>& v) {
        return concatenate(t, tanh(t, v[0]), tanh(t, tanh(t, v[0])));
      },
      [](const std::vector<Numbers<Dual>>& v) {
        const auto once = reference::tanh_of(v[0]);
        return reference::concatenate(once, reference::tanh_of(once), 2, 2);
      });
}

TEST_CASE("squared_error: the sum, and 2 (y - v) / normaliser as its gradient") {
  std::vector<float> y = {1, -2, 0.5F};
  const std::vector<float> values = {0, 1, 0.5F};
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const std::int64_t shape[] = {3, 1};
  const Var x = tape.leaf(Tensor(y.data(), Type::f32, shape), true);
  const Loss loss = squared_error(tape, x, values.data(), 4);
  CHECK(loss.nll == 10);
  CHECK(loss.smoothed == 10);
  CHECK(loss.targets == 3);
  const float* g = tape.grad(x).f32();
  CHECK(std::vector<float>(g, g + 3) == std::vector<float>{0.5F, -1.5F, 0});
}

TEST_CASE("the loss head tells the most likely class of each row, the first of equals, in chunks too") {
  const std::int64_t R = 700, C = 3, V = 5;
  std::vector<float> x = normal(R * C, 1), w = normal(V * C, 2);
  std::copy_n(w.begin(), C, w.begin() + 3 * C);  // classes 0 and 3 are equal
  const std::vector<std::int32_t> targets(static_cast<std::size_t>(R), 1);
  std::vector<std::int32_t> predictions(static_cast<std::size_t>(R), -1);
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  const std::int64_t rows[] = {R, C}, classes[] = {V, C};
  cross_entropy_head(tape, tape.leaf(Tensor(x.data(), Type::f32, rows)),
                     tape.leaf(Tensor(w.data(), Type::f32, classes)), targets.data(), 1, 0,
                     predictions.data());
  const auto logits =
      affine(std::vector<double>(x.begin(), x.end()), std::vector<double>(w.begin(), w.end()), {}, 3);
  for (std::int64_t r = 0; r < R; ++r) {
    const auto row = logits.begin() + r * V;
    CHECK(predictions[static_cast<std::size_t>(r)] == std::max_element(row, row + V) - row);
  }
}
