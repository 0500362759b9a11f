// The recurrent operations through the tape: against PyTorch (tests/fixtures/make_recurrent.py says what
// stands in the fixture and how its numbers come about), and what they say that they cost.
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "quern/autograd/ops.hpp"
#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

constexpr std::int64_t B = 3, T = 5, K = 4, C = 6;  // the fixture's
constexpr std::int32_t lengths[] = {5, 3, 1}, memory_lengths[] = {4, 2, 3};

// f32 through some steps: some 1e-6 of a tensor's largest number. A wrong formula shows at 1e-3 or more.
constexpr double tolerance = 1e-5;

std::vector<float> formula(std::int64_t k, std::int64_t n, double scale = 1) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < n; ++i)
    numbers.push_back(static_cast<float>(
        scale * (2 * static_cast<double>((i * i * i + 5 * i + 131 * k) % 1009) / 1009 - 1)));
  return numbers;
}

/// The variables of a case by name; number k of the file's formula is the k-th that is made.
struct Variables {
  Tape& tape;
  std::map<std::string, std::vector<float>> numbers = {};
  std::map<std::string, Var> vars = {};

  void make(const std::string& name, const std::vector<std::int64_t>& shape, double scale = 1) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    numbers[name] = formula(static_cast<std::int64_t>(numbers.size()), n, scale);
    vars[name] = tape.leaf(Tensor(numbers[name].data(), Type::f32, shape), true);
  }
  Var operator[](const std::string& name) const { return vars.at(name); }
};

void check_numbers(const Tensor& got, const nlohmann::json& wanted) {
  CHECK(relative_error(std::vector<float>(got.f32(), got.f32() + got.size()),
                       wanted.get<std::vector<double>>()) < tolerance);
}

void check_gradients(Tape& tape, const Variables& of, const nlohmann::json& wanted) {
  tape.backward();
  CHECK(of.vars.size() == wanted.size());
  for (const auto& [name, gradient] : wanted.items()) {
    CAPTURE(name);
    check_numbers(tape.grad(of[name]), gradient);
  }
}

nlohmann::json fixture() {
  std::ifstream in(QUERN_SOURCE_DIR "/tests/fixtures/recurrent.json");
  return nlohmann::json::parse(in);
}

}  // namespace

TEST_CASE("GRU and LSTM over a padded batch, in both directions, equal PyTorch") {
  const auto all = fixture();
  for (const Cell cell : {Cell::gru, Cell::lstm})
    for (const bool reverse : {false, true}) {
      const std::string name = std::string(cell == Cell::gru ? "gru" : "lstm") + (reverse ? "_reverse" : "");
      CAPTURE(name);
      Workspace workspace;
      Tape tape(workspace, Mode::train);
      Variables v{tape};
      const std::int64_t N = gate_count(cell) * C;
      v.make("w_input", {N, K}, 0.6);
      v.make("w_hidden", {N, C}, 0.6);
      v.make("b_input", {N}, 0.4);
      v.make("b_hidden", {N}, 0.4);
      v.make("x", {B, T, K});
      const Var gates = linear(tape, v["x"], v["w_input"], v["b_input"]);
      const Var y = recurrent(tape, gates, v["w_hidden"], v["b_hidden"], cell, {lengths, reverse, {}});
      tape.consume(gates);
      check_numbers(y.value(), all.at(name).at("y"));
      auto weights = formula(5, B * T * C);
      tape.seed(y, Tensor(weights.data(), {B, T, C}));
      check_gradients(tape, v, all.at(name).at("gradients"));
    }
}

TEST_CASE("the attention decoder over a padded memory equals PyTorch, with its weights") {
  const auto wanted = fixture().at("decoder");
  constexpr std::int64_t M = 7, S = 4, A = 5;
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  Variables v{tape};
  v.make("x", {B, T, K});
  v.make("memory", {B, S, M});
  v.make("start", {B, C});
  v.make("w_input", {3 * C, K}, 0.6);
  v.make("b_input", {3 * C}, 0.4);
  v.make("w_keys", {A, M}, 0.6);
  v.make("w_query", {A, C}, 0.6);
  v.make("v", {A}, 2);
  v.make("w_context", {3 * C, M}, 0.6);
  v.make("w_hidden", {3 * C, C}, 0.6);
  v.make("b_hidden", {3 * C}, 0.4);
  std::vector<float> weights = poison(B * T * S);
  const Var gates = linear(tape, v["x"], v["w_input"], v["b_input"]);
  const Var keys = linear(tape, v["memory"], v["w_keys"], Var());
  const auto [y, contexts] =
      attention_gru(tape, gates, keys, v["memory"], v["start"],
                    {v["w_query"], v["v"], v["w_context"], v["w_hidden"], v["b_hidden"]}, memory_lengths, {},
                    weights.data());
  tape.consume(gates);
  check_numbers(y.value(), wanted.at("y"));
  check_numbers(contexts.value(), wanted.at("contexts"));
  check_numbers(Tensor(weights.data(), {B, T, S}), wanted.at("weights"));
  auto of_y = formula(11, B * T * C), of_contexts = formula(12, B * T * M);
  tape.seed(y, Tensor(of_y.data(), {B, T, C}));
  tape.seed(contexts, Tensor(of_contexts.data(), {B, T, M}));
  check_gradients(tape, v, wanted.at("gradients"));
}

namespace {

/// An operation on leaves of these shapes, which it seeds with ones.
using Operation = std::function<std::vector<Var>(Tape&, const std::vector<Var>&)>;

struct Pass {
  std::map<Phase, Slice> slices;
  std::size_t held, in_use;
  std::int64_t statistics;
};

Pass pass_of(Backing backing, const std::vector<std::vector<std::int64_t>>& shapes, const Operation& op) {
  Workspace workspace(backing);
  std::vector<float> numbers(100000, 0.1F);
  Profile profile;
  profile.start();
  {
    Tape tape(workspace, Mode::train);
    std::vector<Var> leaves;
    for (const auto& shape : shapes)
      leaves.push_back(tape.leaf(Tensor(numbers.data(), Type::f32, shape), true));
    for (const Var y : op(tape, leaves)) {
      if (tape.planning())
        tape.sink(y);  // a seed that copies nothing
      else
        tape.seed(y, Tensor(numbers.data(), Type::f32, std::span(y.shape().dim, 3)));
    }
    tape.backward();
  }
  profile.stop();
  Pass found{
      {}, workspace.pool.bytes_held(), workspace.pool.bytes_in_use(), workspace.planned_statistics_peak};
  for (const Slice& slice : profile.slices())
    if (slice.phase != Phase::thread) found.slices[slice.phase] = slice;
  return found;
}

/// The cost of forward and backward, and that a planned pass says the same and asks for the same memory.
void check_pass(const std::vector<std::vector<std::int64_t>>& shapes, const Operation& op, Cost forward,
                Cost backward, std::int64_t statistics) {
  Pass real = pass_of(Backing::memory, shapes, op), plan = pass_of(Backing::none, shapes, op);
  for (Pass* pass : {&real, &plan}) {
    CHECK(pass->slices[Phase::forward].cost.flops == forward.flops);
    CHECK(pass->slices[Phase::forward].cost.bytes == forward.bytes);
    CHECK(pass->slices[Phase::backward].cost.flops == backward.flops);
    CHECK(pass->slices[Phase::backward].cost.bytes == backward.bytes);
    CHECK(pass->in_use == 0);
  }
  CHECK(plan.held == real.held);
  CHECK(plan.statistics == statistics);
}

}  // namespace

TEST_CASE("recurrent: gates (2,3,G*4), by hand and planned") {
  // G 4 C C = 64 G weights, which each of 3 steps reads; 6 rows of gates, output, and what is saved.
  check_pass(
      {{2, 3, 12}, {12, 4}, {12}},
      [](Tape& t, const std::vector<Var>& v) {
        return std::vector{recurrent(t, v[0], v[1], v[2], Cell::gru)};
      },
      {2 * 6 * 48, 4 * (3 * 48 + 72 + 2 * 72 + 24 + 96)},
      {4 * 6 * 48, 4 * (3 * 48 + 96 + 2 * 24 + 4 * 72 + 72)}, 0);
  check_pass(
      {{2, 3, 16}, {16, 4}, {16}},
      [](Tape& t, const std::vector<Var>& v) {
        return std::vector{recurrent(t, v[0], v[1], v[2], Cell::lstm)};
      },
      {2 * 6 * 64, 4 * (3 * 64 + 96 + 2 * 96 + 24 + 96 + 24)},
      {4 * 6 * 64, 4 * (3 * 64 + 96 + 24 + 2 * 24 + 2 * 96 + 96)}, 0);
}

TEST_CASE("attention_gru: C 4, A 3, M 5 over 6 keys of which some are seen, by hand and planned") {
  static constexpr std::int32_t seen[] = {6, 2};
  const double weights = 3 * 4 + 12 * 5 + 12 * 4, products = 2 * 6 * weights, pairs = 2 * 3 * 8;
  const double written = 6 * (4 + 5 + 3 + 16), asked = 3 * 12 * (3 + 5);
  check_pass(
      {{2, 3, 12}, {2, 6, 3}, {2, 6, 5}, {3, 4}, {3}, {12, 5}, {12, 4}, {12}},
      [](Tape& t, const std::vector<Var>& v) {
        const auto y = attention_gru(t, v[0], v[1], v[2], Var(), {v[3], v[4], v[5], v[6], v[7]}, seen);
        return std::vector{y.out, y.contexts};
      },
      {products + pairs * (3 + 5), 4 * (3 * weights + asked + 72 + written)},
      {2 * products + pairs * (3 * 3 + 2 * 5), 4 * (3 * weights + 3 * asked + 4 * 72 + written)}, 4 * 6);
}

namespace {

/// A leaf of floats, with a shadow in bf16 or without.
Var weight(Tape& tape, std::vector<float>& x, std::vector<bf16>& shadow, std::vector<std::int64_t> shape,
           Type type) {
  const Var leaf = tape.leaf(Tensor(x.data(), Type::f32, shape), true);
  for (const float number : x) shadow.push_back(to_bf16(number));
  if (type == Type::bf16) leaf.slot().shadow = Tensor(shadow.data(), Type::bf16, shape);
  return leaf;
}

}  // namespace

TEST_CASE("the gradient of a bf16 output that two operations read comes as f32") {
  std::vector<std::vector<float>> found;
  for (const Type type : {Type::f32, Type::bf16}) {
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    auto x = normal(2 * 3 * 4, 1), w = normal(12 * 4, 2, 0.5), hidden = normal(12 * 4, 3, 0.5),
         last = normal(4 * 4, 4), bias = normal(12, 5), dz = normal(24, 6);
    std::vector<bf16> shadows[3];
    const Var input = tape.leaf(Tensor(x.data(), {2, 3, 4}), true);
    const Var gates = linear(tape, input, weight(tape, w, shadows[0], {12, 4}, type), Var());
    const Var y = recurrent(tape, gates, weight(tape, hidden, shadows[1], {12, 4}, type),
                            tape.leaf(Tensor(bias.data(), {12}), true), Cell::gru);
    CHECK(y.shape().type == type);
    const Var square = weight(tape, last, shadows[2], {4, 4}, type);
    for (int i = 0; i < 2; ++i) {
      const Var z = linear(tape, y, square, Var(), Type::f32);
      tape.seed(z, Tensor(dz.data(), {2, 3, 4}));
    }
    tape.backward();
    const float* dx = tape.grad(input).f32();
    found.emplace_back(dx, dx + 24);
  }
  CHECK(relative_error(found[1], found[0]) < 0.03);  // 2^-9 of each number that is stored
}

TEST_CASE("dropout: the same elements forward and backward, x itself in inference") {
  Workspace workspace;
  auto x = normal(2 * 3 * 40, 1), dy = normal(2 * 3 * 40, 2);
  {
    Tape tape(workspace, Mode::infer);
    const Var leaf = tape.leaf(Tensor(x.data(), {2, 3, 40}));
    CHECK(dropout(tape, leaf, {7, 0.5}) == leaf);
  }
  Tape tape(workspace, Mode::train, {5, 2, 11});
  const Var leaf = tape.leaf(Tensor(x.data(), {2, 3, 40}), true);
  CHECK(dropout(tape, leaf, {7, 0}) == leaf);
  const Var y = dropout(tape, leaf, {7, 0.5});
  tape.seed(y, Tensor(dy.data(), {2, 3, 40}));
  const std::vector<float> kept(y.value().f32(), y.value().f32() + 240);
  tape.backward();
  const Dropout mask(RandomStream(5, 7, 2), 0.5, 33);  // sequence 11 begins at row 33
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float factor = mask.factor(i / 40, static_cast<std::uint32_t>(i % 40));
    CHECK(kept[i] == x[i] * factor);
    CHECK(tape.grad(leaf).f32()[i] == dy[i] * factor);
  }
}
