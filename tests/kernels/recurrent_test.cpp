#include "quern/kernels/recurrent.hpp"

#include <cstring>

#include "reference/check.hpp"
#include "reference/oracle.hpp"
#include "reference/recurrent.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

// Rounding: p is a sum of C products of size C^-1/2, some 1e-7 of its own size 1; a gate follows within 3e-7.
// A step passes what comes from the one before on with a factor below 1 or so, and gradients go through as
// many steps again: 1e-5 of a tensor's largest number leaves a factor of 3.
constexpr double tolerance = 1e-5;

struct Inputs {
  RecurrentShape n;
  std::vector<float> gates, w, bias, dout;

  explicit Inputs(RecurrentShape n_, std::uint64_t seed = 1) : n(std::move(n_)) {
    gates = normal(count(n.B * n.T * n.N()), seed);
    w = normal(count(n.N() * n.C), seed + 1, 1 / std::sqrt(double(n.C)));
    bias = normal(count(n.N()), seed + 2);
    dout = normal(count(n.B * n.T * n.C), seed + 3);
  }

  static std::int64_t count(std::size_t size) { return static_cast<std::int64_t>(size); }
  std::int64_t B() const { return count(n.B); }
  std::int64_t T() const { return count(n.T); }
  std::int64_t C() const { return count(n.C); }
  std::int64_t N() const { return count(n.N()); }
  Tensor all(std::vector<float>& x, std::int64_t width) const { return {x.data(), {B(), T(), width}}; }
  Tensor weights(std::vector<float>& x) const { return {x.data(), {N(), C()}}; }
  RecurrentOptions options() const { return {n.lengths.empty() ? nullptr : n.lengths.data(), n.reverse, {}}; }
};

struct Results {
  std::vector<float> out, dgates, dw, db;
};

Results run(Inputs in, float beta = 0, const Results* before = nullptr) {
  const auto [cell, B, T, C, N] = std::tuple(in.n.cell, in.B(), in.T(), in.C(), in.N());
  Results r = before != nullptr ? *before : Results{{}, poison(B * T * N), poison(N * C), poison(N)};
  r.out = poison(B * T * C);
  std::vector<float> activated = poison(B * T * 4 * C), cells = poison(B * T * C);
  const Tensor out = in.all(r.out, C);
  const RecurrentSaved saved = {in.all(activated, 4 * C), cell == Cell::lstm ? in.all(cells, C) : Tensor()};
  auto scratch = poison(static_cast<std::int64_t>(recurrent_forward_scratch(out, cell)));
  recurrent_forward(out, saved, in.all(in.gates, N), in.weights(in.w), in.bias.data(), cell, in.options(),
                    scratch);
  scratch = poison(static_cast<std::int64_t>(recurrent_backward_scratch(out, cell)));
  recurrent_backward({in.all(r.dgates, N), beta}, {in.weights(r.dw), beta}, {Tensor(r.db.data(), {N}), beta},
                     in.all(in.dout, C), out, saved, in.weights(in.w), cell, in.options(), scratch);
  return r;
}

void check_against_reference(const Inputs& in) {
  INFO("cell " << static_cast<int>(in.n.cell) << " B " << in.n.B << " T " << in.n.T << " C " << in.n.C
               << " reverse " << in.n.reverse << " padded " << !in.n.lengths.empty());
  const auto gates = widen(in.gates), w = widen(in.w), bias = widen(in.bias);
  const auto g = recurrent_gradients(in.n, widen(in.dout), gates, w, bias);
  const Results got = run(in);
  CHECK(relative_error(got.out, recurrent(in.n, gates, w, bias)) < tolerance);
  CHECK(relative_error(got.dgates, g.gates) < tolerance);
  CHECK(relative_error(got.dw, g.w, 1) < tolerance);  // all 0 when there is one step
  CHECK(relative_error(got.db, g.bias) < tolerance);
}

constexpr Cell cells[] = {Cell::gru, Cell::lstm};

}  // namespace

TEST_CASE("recurrent layers equal the double reference, forward and backward") {
  for (const Cell cell : cells)
    for (const bool reverse : {false, true}) {
      for (const std::size_t C : {1, 17, 64})
        for (const std::size_t T : {1, 2, 9})
          for (const std::size_t B : {1, 4, 5}) check_against_reference(Inputs({B, T, C, cell, {}, reverse}));
      check_against_reference(Inputs({5, 3, 513, cell, {}, reverse}));
      check_against_reference(Inputs({4, 9, 17, cell, {9, 3, 0, 1}, reverse}));
      check_against_reference(Inputs({6, 5, 64, cell, {2, 5, 1, 0, 4, 5}, reverse}));
      check_against_reference(Inputs({3, 4, 20, cell, {0, 0, 0}, reverse}));
    }
}

TEST_CASE("the reference's gradients of recurrent layers equal dual numbers") {
  for (const Cell cell : cells)
    for (const bool reverse : {false, true}) {
      const Inputs in({3, 4, 3, cell, {4, 2, 0}, reverse});
      const std::vector<float> inputs[3] = {in.gates, in.w, in.bias};
      const auto g = recurrent_gradients(in.n, widen(in.dout), widen(in.gates), widen(in.w), widen(in.bias));
      const std::vector<double>* wanted[3] = {&g.gates, &g.w, &g.bias};
      for (int which = 0; which < 3; ++which) {
        const auto by_dual = gradient(inputs[which], [&](const std::vector<Dual>& x) {
          std::vector<Dual> p[3];
          for (int i = 0; i < 3; ++i) p[i] = i == which ? x : constants(inputs[i]);
          return weighted(in.dout, recurrent(in.n, p[0], p[1], p[2]));
        });
        CHECK(relative_error(*wanted[which], by_dual) < 1e-12);  // double rounding, sums of some ten terms
      }
    }
}

TEST_CASE("a sequence alone and inside a padded batch is the same") {
  for (const Cell cell : cells)
    for (const bool reverse : {false, true}) {
      Inputs batch({5, 8, 24, cell, {8, 5, 1, 7, 3}, reverse});
      const Results together = run(batch);
      for (std::size_t b = 0; b < batch.n.B; ++b) {
        const auto length = static_cast<std::size_t>(batch.n.lengths[b]);
        Inputs alone({1, length, 24, cell, {}, reverse});
        alone.w = batch.w, alone.bias = batch.bias;
        alone.gates = slice(batch.gates, b * 8 * batch.n.N(), length * batch.n.N());
        alone.dout = slice(batch.dout, b * 8 * 24, length * 24);
        const Results one = run(alone);
        // Products of one row and of five may add in another order.
        CHECK(relative_error(slice(together.out, b * 8 * 24, length * 24), one.out) < 2e-6);
        CHECK(relative_error(slice(together.dgates, b * 8 * batch.n.N(), length * batch.n.N()), one.dgates) <
              2e-6);
        for (std::size_t i = (b * 8 + length) * 24; i < (b + 1) * 8 * 24; ++i) CHECK(together.out[i] == 0);
        for (std::size_t i = (b * 8 + length) * batch.n.N(); i < (b + 1) * 8 * batch.n.N(); ++i)
          CHECK(together.dgates[i] == 0);
      }
    }
}

TEST_CASE("what stands in padding reaches nothing") {
  for (const Cell cell : cells)
    for (const bool reverse : {false, true}) {
      const Inputs clean({2, 6, 20, cell, {6, 2}, reverse});
      Inputs dirty = clean;
      std::fill(dirty.gates.begin() + static_cast<std::ptrdiff_t>(8 * clean.n.N()), dirty.gates.end(),
                std::numeric_limits<float>::quiet_NaN());
      std::fill(dirty.dout.begin() + 8 * 20, dirty.dout.end(), std::numeric_limits<float>::quiet_NaN());
      const Results a = run(clean), b = run(dirty);
      CHECK(a.out == b.out);
      CHECK(a.dgates == b.dgates);
      CHECK(a.dw == b.dw);
      CHECK(a.db == b.db);
    }
}

TEST_CASE("a recurrent layer continues a state, however the steps are cut") {
  for (const Cell cell : cells) {
    Inputs in({3, 12, 40, cell});
    const Results whole = run(in);
    for (const std::vector<std::int64_t>& cuts :
         {std::vector<std::int64_t>{12}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 7}}) {
      std::vector<float> state = poison(3 * state_width(cell, 40));
      std::int64_t at = 0;
      for (const std::int64_t n : cuts) {
        Tensor gates(in.gates.data() + at * in.N(), {3, n, in.N()});
        gates.stride[0] = in.T() * in.N();
        std::vector<float> out = poison(3 * n * 40);
        const Tensor y(out.data(), {3, n, 40});
        auto scratch = poison(static_cast<std::int64_t>(recurrent_forward_scratch(y, cell)));
        recurrent_forward(y, {}, gates, in.weights(in.w), in.bias.data(), cell,
                          {nullptr, false, {state.data(), at == 0}}, scratch);
        for (std::int64_t b = 0; b < 3; ++b)
          CHECK(std::memcmp(out.data() + b * n * 40, whole.out.data() + (b * 12 + at) * 40,
                            static_cast<std::size_t>(n) * 40 * sizeof(float)) == 0);
        at += n;
      }
    }
  }
}

TEST_CASE("at its end a sequence leaves its state as it is") {
  for (const Cell cell : cells) {
    Inputs in({4, 7, 20, cell, {7, 3, 0, 1}});
    const auto width = static_cast<std::size_t>(state_width(cell, 20));
    std::vector<float> state = normal(Inputs::count(4 * width), 9), out = poison(4 * 7 * 20);
    const std::vector<float> start = state;
    const Tensor y = in.all(out, 20);
    auto scratch = poison(static_cast<std::int64_t>(recurrent_forward_scratch(y, cell)));
    recurrent_forward(y, {}, in.all(in.gates, in.N()), in.weights(in.w), in.bias.data(), cell,
                      {in.n.lengths.data(), false, {state.data(), false}}, scratch);
    for (std::size_t b = 0; b < 4; ++b) {
      auto wanted = widen(slice(start, b * width, width));
      for (const std::size_t t : in.n.steps(b))
        wanted = recurrent_step(cell, widen(slice(in.gates, (b * 7 + t) * in.n.N(), in.n.N())), wanted,
                                widen(in.w), widen(in.bias));
      CHECK(relative_error(slice(state, b * width, width), wanted) <
            (in.n.steps(b).empty() ? 0x1p-60 : 1e-5));
    }
  }
}

TEST_CASE("recurrent layers add to a gradient that is there, and skip one that nobody wants") {
  for (const Cell cell : cells)
    for (const std::size_t T : {1, 6}) {
      Inputs in({5, T, 20, cell});
      const Results before = {
          {}, normal(in.B() * in.T() * in.N(), 21), normal(in.N() * 20, 22), normal(in.N(), 23)};
      const Results zero = run(in), one = run(in, 1, &before);
      const auto check = [](const auto& added, const auto& alone, const auto& there) {
        for (std::size_t i = 0; i < there.size(); ++i)
          CHECK(std::abs(added[i] - (alone[i] + there[i])) < 4e-6 * (1 + std::abs(alone[i])));
      };
      check(one.dgates, zero.dgates, before.dgates);
      check(one.dw, zero.dw, before.dw);
      check(one.db, zero.db, before.db);
      // Nobody wants anything.
      Results none = zero;
      std::vector<float> activated = normal(in.B() * in.T() * 80, 5), kept = normal(in.B() * in.T() * 20, 6);
      const Tensor out = in.all(none.out, 20);
      auto scratch = poison(static_cast<std::int64_t>(recurrent_backward_scratch(out, cell)));
      recurrent_backward({}, {}, {}, in.all(in.dout, 20), out,
                         {in.all(activated, 80), cell == Cell::lstm ? in.all(kept, 20) : Tensor()},
                         in.weights(in.w), cell, in.options(), scratch);
    }
}

TEST_CASE("a NaN or an infinity that a recurrent layer reads, at any gate, is not swallowed") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Cell cell : cells)
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf})
      for (std::size_t gate = 0; gate < static_cast<std::size_t>(gate_count(cell)); ++gate) {
        CAPTURE(static_cast<int>(cell), bad, gate);
        Inputs in({2, 6, 8, cell});
        in.gates[(6 + 3) * in.n.N() + gate * 8 + 2] = bad;
        const Results got = run(in);
        for (std::size_t t = 0; t < 6; ++t) {
          CHECK(std::isfinite(got.out[t * 8 + 2]));
          CHECK(std::isnan(got.out[(6 + t) * 8 + 2]) == (t >= 3));
        }
        Inputs of_bias({2, 6, 8, cell});
        of_bias.bias[gate * 8 + 2] = bad;
        const Results all = run(of_bias);
        for (std::size_t row = 0; row < 12; ++row) CHECK(std::isnan(all.out[row * 8 + 2]));
      }
}

TEST_CASE("a recurrent layer saturates without overflow") {
  for (const Cell cell : cells)
    for (const float size : {100.0F, 1e30F}) {
      Inputs in({2, 5, 20, cell});
      for (float& x : in.gates) x *= size;
      const Results got = run(in);
      for (const auto* all : {&got.out, &got.dgates, &got.dw, &got.db})
        for (const float x : *all) REQUIRE(std::isfinite(x));
    }
}

TEST_CASE("recurrent layers give the same bits on one thread and on two") {
  for (const Cell cell : cells) {
    // Sizes whose products oneDNN adds in one order.
    const Inputs in({70, 5, 130, cell, {}, cell == Cell::lstm});
    CHECK(same_on_threads({2}, [&] { return run(in).out; }));
    CHECK(same_on_threads({2}, [&] { return run(in).dgates; }));
    CHECK(same_on_threads({2}, [&] { return run(in).dw; }));
    CHECK(same_on_threads({2}, [&] { return run(in).db; }));
  }
}

TEST_CASE("recurrent layers in bf16 are near those in f32 on the same numbers", "[bf16]") {
  // 2^-9 of each number that is stored, through 6 steps there and back.
  constexpr double near = 0.03;
  for (const Cell cell : cells) {
    Inputs in({5, 6, 40, cell});
    const auto rounded = [](std::vector<float>& x) {
      std::vector<bf16> half;
      for (float& number : x) half.push_back(to_bf16(number)), number = to_float(half.back());
      return half;
    };
    auto gates = rounded(in.gates), w = rounded(in.w), dout = rounded(in.dout);
    const Results wanted = run(in);
    const auto view = [](std::vector<bf16>& x, std::initializer_list<std::int64_t> shape) {
      return Tensor(x.data(), Type::bf16, std::span(shape.begin(), shape.size()));
    };
    const std::int64_t N = in.N();
    std::vector<bf16> out(5 * 6 * 40), activated(5 * 6 * 160), dgates(gates.size());
    std::vector<float> kept = poison(5 * 6 * 40), dw = poison(N * 40), db = poison(N), dwide = in.dout;
    const Tensor y = view(out, {5, 6, 40});
    const RecurrentSaved saved = {view(activated, {5, 6, 160}),
                                  cell == Cell::lstm ? in.all(kept, 40) : Tensor()};
    auto scratch = poison(static_cast<std::int64_t>(recurrent_forward_scratch(y, cell)));
    recurrent_forward(y, saved, view(gates, {5, 6, N}), view(w, {N, 40}), in.bias.data(), cell, {}, scratch);
    scratch = poison(static_cast<std::int64_t>(recurrent_backward_scratch(y, cell)));
    std::vector<bf16> first;
    for (const Tensor& upstream : {view(dout, {5, 6, 40}), in.all(dwide, 40)}) {  // the same numbers
      recurrent_backward({view(dgates, {5, 6, N}), 0}, {in.weights(dw), 0}, {Tensor(db.data(), {N}), 0},
                         upstream, y, saved, view(w, {N, 40}), cell, {}, scratch);
      if (first.empty()) first = dgates;
      CHECK(std::memcmp(first.data(), dgates.data(), first.size() * sizeof(bf16)) == 0);
    }
    const auto wide = [](const std::vector<bf16>& x) {
      std::vector<float> all;
      for (const bf16 number : x) all.push_back(to_float(number));
      return all;
    };
    CHECK(relative_error(wide(out), wanted.out) < near);
    CHECK(relative_error(wide(dgates), wanted.dgates) < near);
    CHECK(relative_error(dw, wanted.dw) < near);
    CHECK(relative_error(db, wanted.db) < near);
  }
}
