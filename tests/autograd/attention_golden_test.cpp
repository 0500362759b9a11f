// The attention operations against numbers from PyTorch in float64 (tests/fixtures/attention_family.json):
// scores that are not scaled products, and linear attention. The reference formulas, in double, to 1e-10; the
// operations, in f32, to 1e-5.
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "quern/autograd/ops.hpp"
#include "reference/attention.hpp"
#include "reference/check.hpp"
#include "reference/linear_attention.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;
using nlohmann::json;

namespace {

constexpr std::int64_t B = 2;

template <class X>
using Inputs = std::map<std::string, std::vector<X>>;

void flatten(const json& x, std::vector<double>& to) {
  if (x.is_array())
    for (const json& part : x) flatten(part, to);
  else
    to.push_back(x.get<double>());
}

std::vector<double> read(const json& x) {
  std::vector<double> numbers;
  flatten(x, numbers);
  return numbers;
}

/// (R,K) (K,N).
template <class X>
std::vector<X> product(const std::vector<X>& a, const std::vector<X>& b, std::size_t K) {
  const std::size_t R = a.size() / K, N = b.size() / K;
  std::vector<X> c(R * N, X(0));
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t k = 0; k < K; ++k)
      for (std::size_t n = 0; n < N; ++n) c[r * N + n] += a[r * K + k] * b[k * N + n];
  return c;
}

/// Rows of `from` numbers become rows of `to`: zeros behind them, or the rest cut off. Values are as wide as
/// keys in the operations, and here they are not.
template <class X>
std::vector<X> resized(const std::vector<X>& x, std::size_t from, std::size_t to) {
  std::vector<X> y;
  for (std::size_t r = 0; r < x.size() / from; ++r)
    for (std::size_t d = 0; d < to; ++d) y.push_back(d < from ? x[r * from + d] : X(0));
  return y;
}

/// One case: its inputs with their shapes, its operation, and the same in plain formulas, with values of
/// `width`.
struct Case {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> inputs;
  std::size_t width;
  std::function<Var(Tape&, std::map<std::string, Var>&)> operation;
  std::function<std::vector<double>(const Inputs<double>&)> formula;
  std::function<std::vector<Dual>(const Inputs<Dual>&)> dual;
};

/// f, for both kinds of numbers.
template <class F>
Case make_case(std::vector<std::pair<std::string, std::vector<std::int64_t>>> inputs, std::size_t width,
               std::function<Var(Tape&, std::map<std::string, Var>&)> operation, F f) {
  return {std::move(inputs), width, std::move(operation), f, f};
}

const AttentionMask all_keys{false, 0, nullptr};

AttentionOptions unscaled() {
  AttentionOptions options;
  options.mask = all_keys;
  return options;
}

std::map<std::string, Case> cases() {
  std::map<std::string, Case> c;
  c["dot_score"] = make_case(
      {{"Q", {B, 4, 5}}, {"K", {B, 5, 5}}, {"V", {B, 5, 5}}}, 5,
      [](Tape& t, auto& v) { return attention(t, v["Q"], v["K"], v["V"], 1, 1, 1, all_keys, {}); },
      [](const auto& v) {
        return attention({B, 4, 5, 1, 5}, v.at("Q"), v.at("K"), v.at("V"), unscaled());
      });
  c["general_score"] = make_case(
      {{"Q", {B, 4, 6}}, {"K", {B, 5, 5}}, {"V", {B, 5, 5}}, {"W", {6, 5}}}, 5,
      [](Tape& t, auto& v) {
        return attention(t, head_products(t, v["Q"], v["W"], 1), v["K"], v["V"], 1, 1, 1, all_keys, {});
      },
      [](const auto& v) {
        return attention({B, 4, 5, 1, 5}, product(v.at("Q"), v.at("W"), 6), v.at("K"), v.at("V"), unscaled());
      });
  c["additive_score"] = make_case(
      {{"Q", {B, 4, 6}}, {"K", {B, 5, 5}}, {"V", {B, 5, 4}}, {"W_1", {6, 4}}, {"W_2", {5, 4}}, {"v", {1, 4}}},
      4,
      [](Tape& t, auto& v) {
        return additive_attention(t, head_products(t, v["Q"], v["W_1"], 1),
                                  head_products(t, v["K"], v["W_2"], 1), v["V"], v["v"], 1, 1, all_keys, {});
      },
      [](const auto& v) {
        return attention({B, 4, 5, 1, 4}, product(v.at("Q"), v.at("W_1"), 6),
                         product(v.at("K"), v.at("W_2"), 5), v.at("V"), unscaled(), {}, v.at("v"));
      });
  c["linear_elu_causal"] = make_case(
      {{"Q", {B, 4, 4}}, {"K", {B, 4, 4}}, {"V", {B, 4, 4}}}, 4,
      [](Tape& t, auto& v) { return linear_attention(t, v["Q"], v["K"], v["V"], Var(), 1, 1, true); },
      [](const auto& v) {
        return linear_attention({B, 4, 4, 1, 4}, v.at("Q"), v.at("K"), v.at("V"), LinearAttentionOptions{});
      });
  return c;
}

/// The numbers of an input: values are 3 wide in the file.
std::vector<double> input_of(const json& j, const std::string& name, std::size_t width) {
  const auto numbers = read(j.at(name));
  return name == "V" ? resized(numbers, 3, width) : numbers;
}

std::vector<double> wanted_gradient(const json& j, const std::string& name) {
  return read(j.at("grad_" + name));
}

template <class X>
std::vector<X> gradient_of(const std::string& name, const std::vector<X>& found, std::size_t width) {
  return name == "V" ? resized(found, width, 3) : found;
}

void check_formula(const Case& c, const json& j) {
  Inputs<double> inputs;
  Inputs<Dual> duals;
  for (const auto& [name, shape] : c.inputs) {
    inputs[name] = input_of(j, name, c.width);
    duals[name] = {inputs[name].begin(), inputs[name].end()};
  }
  CHECK(relative_error(resized(c.formula(inputs), c.width, 3), read(j.at("O"))) < 1e-10);
  const auto R = read(j.at("R"));
  for (const auto& [name, shape] : c.inputs) {
    CAPTURE(name);
    std::vector<double> found;
    for (Dual& x : duals[name]) {
      x.slope = 1;
      const auto out = resized(c.dual(duals), c.width, 3);
      x.slope = 0;
      double sum = 0;
      for (std::size_t i = 0; i < R.size(); ++i) sum += R[i] * out[i].slope;
      found.push_back(sum);
    }
    CHECK(relative_error(gradient_of(name, found, c.width), wanted_gradient(j, name)) < 1e-10);
  }
}

void check_operation(const Case& c, const json& j) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  std::map<std::string, std::vector<float>> numbers;
  std::map<std::string, Var> vars;
  for (const auto& [name, shape] : c.inputs) {
    const auto wide = input_of(j, name, c.width);
    numbers[name] = {wide.begin(), wide.end()};
    vars[name] = tape.leaf(Tensor(numbers[name].data(), Type::f32, shape), true);
  }
  const Var out = c.operation(tape, vars);
  const auto floats = [](const Tensor& x) { return std::vector<float>(x.f32(), x.f32() + x.size()); };
  CHECK(relative_error(resized(floats(out.value()), c.width, 3), read(j.at("O"))) < 1e-5);
  const auto R = resized(read(j.at("R")), 3, c.width);
  std::vector<float> upstream(R.begin(), R.end());
  Tensor gradient = out.value();
  gradient.data = upstream.data();
  tape.seed(out, gradient);
  tape.backward();
  for (const auto& [name, shape] : c.inputs) {
    CAPTURE(name);
    CHECK(relative_error(gradient_of(name, floats(tape.grad(vars[name])), c.width),
                         wanted_gradient(j, name)) < 1e-5);
  }
}

}  // namespace

TEST_CASE("scores and linear attention equal PyTorch in float64") {
  std::ifstream file(std::string(QUERN_SOURCE_DIR) + "/tests/fixtures/attention_family.json");
  REQUIRE(file);
  const json all = json::parse(file);
  const auto known = cases();
  std::size_t seen = 0;
  for (const json& j : all.at("cases")) {
    const std::string name = j.at("name");
    if (!known.contains(name)) continue;
    CAPTURE(name);
    check_formula(known.at(name), j);
    check_operation(known.at(name), j);
    ++seen;
  }
  CHECK(seen == known.size());
}
