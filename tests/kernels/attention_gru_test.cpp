#include "quern/kernels/attention_gru.hpp"

#include <cstring>

#include "reference/attention_gru.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

// As in recurrent_test.cpp; a score is a sum of A terms of size A^-1/2 with a tanh of 2 ulp, some 3e-7, which
// its weight has as its relative error.
constexpr double tolerance = 1e-5;

std::int64_t count(std::size_t n) { return static_cast<std::int64_t>(n); }

struct Inputs {
  AttentionGruShape n;
  AttentionGruNumbers<float> numbers;
  std::vector<float> dout, dcontexts;

  explicit Inputs(AttentionGruShape n_, bool has_start = true, std::uint64_t seed = 1) : n(std::move(n_)) {
    const auto weights = [&](std::size_t rows, std::size_t cols, std::uint64_t k) {
      return normal(count(rows * cols), seed + k, 1 / std::sqrt(double(cols)));
    };
    numbers.gates = normal(count(n.B * n.T * 3 * n.C), seed);
    numbers.keys = normal(count(n.B * n.S * n.A), seed + 1);
    numbers.memory = normal(count(n.B * n.S * n.M), seed + 2);
    if (has_start) numbers.start = normal(count(n.B * n.C), seed + 3);
    numbers.w_query = weights(n.A, n.C, 4);
    numbers.v = normal(count(n.A), seed + 5, 2 / std::sqrt(double(n.A)));
    numbers.w_context = weights(3 * n.C, n.M, 6);
    numbers.w_hidden = weights(3 * n.C, n.C, 7);
    numbers.b_hidden = normal(count(3 * n.C), seed + 8);
    dout = normal(count(n.B * n.T * n.C), seed + 9);
    dcontexts = normal(count(n.B * n.T * n.M), seed + 10);
  }

  AttentionGruNumbers<double> wide() const {
    AttentionGruNumbers<double> to;
    AttentionGruNumbers<float> from = numbers;
    for (std::size_t i = 0; i < to.all().size(); ++i) *to.all()[i] = widen(*from.all()[i]);
    return to;
  }
};

/// The numbers, or gradients, as the operation takes them.
std::vector<Tensor> tensors(const AttentionGruShape& n, AttentionGruNumbers<float>& x) {
  const auto [B, T, C, S, A, M] =
      std::tuple(count(n.B), count(n.T), count(n.C), count(n.S), count(n.A), count(n.M));
  return {{x.gates.data(), {B, T, 3 * C}},  {x.keys.data(), {B, S, A}},
          {x.memory.data(), {B, S, M}},     x.start.empty() ? Tensor() : Tensor(x.start.data(), {B, C}),
          {x.w_query.data(), {A, C}},       {x.v.data(), {A}},
          {x.w_context.data(), {3 * C, M}}, {x.w_hidden.data(), {3 * C, C}},
          {x.b_hidden.data(), {3 * C}}};
}

AttentionGruInputs inputs_of(const AttentionGruShape& n, AttentionGruNumbers<float>& x) {
  const auto t = tensors(n, x);
  return {t[0],
          t[1],
          t[2],
          t[3],
          t[4],
          x.v.data(),
          t[6],
          t[7],
          x.b_hidden.data(),
          n.lengths.empty() ? nullptr : n.lengths.data()};
}

/// What forward writes.
struct Outputs {
  std::vector<float> out, contexts, queries, lse, activated, weights;
  AttentionGruOutputs to;

  explicit Outputs(const AttentionGruShape& n)
      : out(poison(count(n.B * n.T * n.C))),
        contexts(poison(count(n.B * n.T * n.M))),
        queries(poison(count(n.B * n.T * n.A))),
        lse(poison(count(n.B * n.T))),
        activated(poison(count(n.B * n.T * 4 * n.C))),
        weights(poison(count(n.B * n.T * n.S))) {
    const auto view = [&](std::vector<float>& x) {
      return Tensor(x.data(), {count(n.B), count(n.T), count(x.size() / (n.B * n.T))});
    };
    to = {view(out), view(contexts), view(queries), lse.data(), view(activated)};
  }
};

struct Results {
  std::vector<float> out, contexts, weights;
  AttentionGruNumbers<float> gradients;
};

Results run(Inputs in, float beta = 0, const AttentionGruNumbers<float>* before = nullptr) {
  Outputs forward(in.n);
  const AttentionGruInputs from = inputs_of(in.n, in.numbers);
  auto scratch = poison(count(attention_gru_forward_scratch(from)));
  attention_gru_forward(forward.to, from, {}, forward.weights.data(), scratch);
  Results r{forward.out, forward.contexts, forward.weights, before != nullptr ? *before : in.numbers};
  if (before == nullptr)
    for (auto* x : r.gradients.all()) *x = poison(count(x->size()));
  const auto t = tensors(in.n, r.gradients);
  const auto sink = [&](std::size_t i) { return Sink{t[i], beta}; };
  scratch = poison(count(attention_gru_backward_scratch(from)));
  Tensor dout = forward.to.out, dcontexts = forward.to.contexts;
  dout.data = in.dout.data(), dcontexts.data = in.dcontexts.data();
  attention_gru_backward({sink(0), sink(1), sink(2), sink(3), sink(4), sink(5), sink(6), sink(7), sink(8)},
                         dout, dcontexts, from, forward.to, scratch);
  return r;
}

void check_against_reference(const Inputs& in) {
  INFO("B " << in.n.B << " T " << in.n.T << " C " << in.n.C << " S " << in.n.S << " A " << in.n.A << " M "
            << in.n.M << " start " << !in.numbers.start.empty() << " padded " << !in.n.lengths.empty());
  const auto wanted = attention_gru(in.n, in.wide());
  auto gradients = attention_gru_gradients(in.n, widen(in.dout), widen(in.dcontexts), in.wide());
  Results got = run(in);
  CHECK(relative_error(got.out, wanted.out) < tolerance);
  CHECK(relative_error(got.contexts, wanted.contexts, 1) < tolerance);
  CHECK(relative_error(got.weights, wanted.weights, 1) < tolerance);
  for (std::size_t i = 0; i < gradients.all().size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(*got.gradients.all()[i], *gradients.all()[i], 1) < tolerance);
  }
}

}  // namespace

TEST_CASE("the attention decoder equals the double reference, forward and backward") {
  for (const bool start : {false, true}) {
    for (const std::size_t width : {1, 17, 64})
      for (const std::size_t T : {1, 2, 7})
        check_against_reference(Inputs({3, T, width, 9, width, width}, start));
    check_against_reference(Inputs({5, 3, 20, 33, 13, 47}, start));
    check_against_reference(Inputs({2, 2, 65, 5, 513, 130}, start));
    check_against_reference(Inputs({1, 4, 12, 1, 8, 10}, start));
    check_against_reference(Inputs({5, 4, 20, 12, 16, 24, {12, 3, 0, 1, 7}}, start));
  }
}

TEST_CASE("the reference's gradients of the attention decoder equal dual numbers") {
  for (const bool start : {false, true}) {
    const Inputs in({2, 3, 2, 3, 4, 3, {3, 2}}, start);
    AttentionGruNumbers<float> numbers = in.numbers;
    auto gradients = attention_gru_gradients(in.n, widen(in.dout), widen(in.dcontexts), in.wide());
    for (std::size_t which = 0; which < numbers.all().size(); ++which) {
      CAPTURE(which);
      const auto by_dual = gradient(*numbers.all()[which], [&](const std::vector<Dual>& x) {
        AttentionGruNumbers<Dual> p;
        for (std::size_t i = 0; i < numbers.all().size(); ++i)
          *p.all()[i] = i == which ? x : constants(*numbers.all()[i]);
        const auto y = attention_gru(in.n, p);
        return weighted(in.dout, y.out) + weighted(in.dcontexts, y.contexts);
      });
      CHECK(relative_error(*gradients.all()[which], by_dual) < 1e-12);  // double rounding
    }
  }
}

TEST_CASE("keys beyond a memory's length reach nothing") {
  const Inputs clean({3, 4, 20, 9, 12, 14, {9, 4, 0}});
  Inputs dirty = clean;
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t s = clean.n.keys(b); s < 9; ++s) {
      std::fill_n(dirty.numbers.keys.begin() + std::ptrdiff_t((b * 9 + s) * 12), 12, poison(1)[0]);
      std::fill_n(dirty.numbers.memory.begin() + std::ptrdiff_t((b * 9 + s) * 14), 14, poison(1)[0]);
    }
  Results a = run(clean), b = run(dirty);
  CHECK(a.out == b.out);
  CHECK(a.contexts == b.contexts);
  CHECK(a.weights == b.weights);
  for (std::size_t i = 0; i < a.gradients.all().size(); ++i)
    CHECK(*a.gradients.all()[i] == *b.gradients.all()[i]);
}

TEST_CASE("the attention decoder continues a state, however the steps are cut") {
  for (const bool start : {false, true}) {
    Inputs in({3, 8, 20, 9, 12, 14, {9, 4, 0}}, start);
    const Results whole = run(in);
    for (const std::vector<std::size_t>& cuts :
         {std::vector<std::size_t>{8}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 5}}) {
      std::vector<float> state = poison(3 * 20);
      std::size_t at = 0;
      for (const std::size_t n : cuts) {
        AttentionGruShape part = in.n;
        part.T = n;
        Outputs to(part);
        to.to.activated = {};
        AttentionGruInputs from = inputs_of(in.n, in.numbers);
        from.gates.data = from.gates.at(count(at) * 60);
        from.gates.dim[1] = count(n);
        auto scratch = poison(count(attention_gru_forward_scratch(from)));
        attention_gru_forward(to.to, from, {state.data(), at == 0}, nullptr, scratch);
        for (std::size_t b = 0; b < 3; ++b) {
          CHECK(slice(to.out, b * n * 20, n * 20) == slice(whole.out, (b * 8 + at) * 20, n * 20));
          CHECK(slice(to.contexts, b * n * 14, n * 14) == slice(whole.contexts, (b * 8 + at) * 14, n * 14));
        }
        at += n;
      }
    }
  }
}

TEST_CASE("the attention decoder adds to gradients that are there, and does without those of its outputs") {
  Inputs in({3, 4, 20, 9, 12, 14});
  AttentionGruNumbers<float> before = in.numbers;
  Results zero = run(in), one = run(in, 1, &before);
  for (std::size_t i = 0; i < before.all().size(); ++i)
    for (std::size_t j = 0; j < before.all()[i]->size(); ++j) {
      const float alone = (*zero.gradients.all()[i])[j];
      CHECK(std::abs((*one.gradients.all()[i])[j] - (alone + (*before.all()[i])[j])) <
            4e-6 * (1 + std::abs(alone)));
    }
  Outputs forward(in.n);
  const AttentionGruInputs from = inputs_of(in.n, in.numbers);
  auto scratch = poison(count(attention_gru_forward_scratch(from)));
  attention_gru_forward(forward.to, from, {}, nullptr, scratch);
  scratch = poison(count(attention_gru_backward_scratch(from)));
  std::vector<float> dgates = poison(count(before.gates.size()));
  attention_gru_backward({{{dgates.data(), {3, 4, 60}}, 0}, {}, {}, {}, {}, {}, {}, {}, {}}, {}, {}, from,
                         forward.to, scratch);
  CHECK(dgates == std::vector<float>(dgates.size(), 0));
}

TEST_CASE("scores of the attention decoder overflow nowhere; no NaN or infinity is swallowed") {
  Inputs in({2, 4, 20, 9, 12, 14});
  for (float& v : in.numbers.v) v *= 1000;
  Results got = run(in);
  for (const auto* all : got.gradients.all())
    for (const float x : *all) REQUIRE(std::isfinite(x));
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {poison(1)[0], inf, -inf}) {
    in.numbers.keys[(9 + 3) * 12 + 5] = bad;
    got = run(in);
    for (std::size_t i = 0; i < 80; ++i) {
      CHECK(std::isfinite(got.out[i]));
      CHECK(std::isnan(got.out[80 + i]));
    }
  }
}

TEST_CASE("the attention decoder gives the same bits on one thread and on two") {
  const Inputs in({33, 3, 70, 40, 36, 80});  // sizes whose products oneDNN adds in one order
  CHECK(same_on_threads({2}, [&] { return run(in).out; }));
  CHECK(same_on_threads({2}, [&] { return run(in).contexts; }));
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(same_on_threads({2}, [&] { return *run(in).gradients.all()[i]; }));
}

TEST_CASE("the attention decoder in bf16 is near that in f32 on the same numbers", "[bf16]") {
  // 2^-9 of each number that is stored, through 4 steps.
  Inputs in({3, 4, 40, 9, 24, 34, {9, 4, 6}});
  const auto rounded = [](std::vector<float>& x) {
    std::vector<bf16> half;
    for (float& number : x) half.push_back(to_bf16(number)), number = to_float(half.back());
    return half;
  };
  std::vector<std::vector<bf16>> halves;
  const std::vector<float> v = in.numbers.v, b = in.numbers.b_hidden;
  for (auto* x : in.numbers.all()) halves.push_back(rounded(*x));
  in.numbers.v = v, in.numbers.b_hidden = b;
  Results wanted = run(in);
  const auto half = [](Tensor like, std::vector<bf16>& x) {
    x.resize(static_cast<std::size_t>(like.size()));
    like.data = x.data();
    like.type = Type::bf16;
    return like;
  };
  AttentionGruInputs from = inputs_of(in.n, in.numbers);
  Tensor* const inputs[] = {&from.gates,   &from.keys, &from.memory,    &from.start,
                            &from.w_query, nullptr,    &from.w_context, &from.w_hidden};
  for (std::size_t i = 0; i < 8; ++i)
    if (inputs[i] != nullptr) *inputs[i] = half(*inputs[i], halves[i]);
  Outputs wide(in.n);
  std::vector<bf16> stored[4];
  AttentionGruOutputs to = {half(wide.to.out, stored[0]), half(wide.to.contexts, stored[1]),
                            half(wide.to.queries, stored[2]), wide.lse.data(),
                            half(wide.to.activated, stored[3])};
  auto scratch = poison(count(attention_gru_forward_scratch(from)));
  attention_gru_forward(to, from, {}, nullptr, scratch);
  AttentionGruNumbers<float> gradients = in.numbers;
  for (auto* x : gradients.all()) *x = poison(count(x->size()));
  const auto t = tensors(in.n, gradients);
  scratch = poison(count(attention_gru_backward_scratch(from)));
  Tensor dout = wide.to.out, dcontexts = wide.to.contexts;
  dout.data = in.dout.data(), dcontexts.data = in.dcontexts.data();
  attention_gru_backward(
      {{t[0], 0}, {t[1], 0}, {t[2], 0}, {t[3], 0}, {t[4], 0}, {t[5], 0}, {t[6], 0}, {t[7], 0}, {t[8], 0}},
      dout, dcontexts, from, to, scratch);
  std::vector<float> out, contexts;
  for (const bf16 x : stored[0]) out.push_back(to_float(x));
  for (const bf16 x : stored[1]) contexts.push_back(to_float(x));
  CHECK(relative_error(out, wanted.out) < 0.03);
  CHECK(relative_error(contexts, wanted.contexts) < 0.03);
  for (std::size_t i = 0; i < gradients.all().size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(*gradients.all()[i], *wanted.gradients.all()[i]) < 0.05);
  }
}
