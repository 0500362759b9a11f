#include "quern/nn/attention.hpp"

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "quern/kernels/elementwise.hpp"
#include "quern/nn/cache.hpp"
#include "reference/check.hpp"
#include "reference/multi_head.hpp"

namespace quern {
namespace {

using nlohmann::json;
using reference::AttentionShape;
using reference::Dual;
using reference::normal;
using reference::relative_error;
using Numbers = std::vector<double>;

/// A module alone in a store, with its numbers as the references take them.
struct Module {
  ModelConfig config;
  ParamStore store;
  MultiHeadAttention attention;

  explicit Module(const ModelConfig& c, Type compute = Type::f32)
      : config(c), store(compute), attention(Scope(store, "attention"), c) {
    store.allocate(true);
    for (Parameter& p : store.all()) {
      const bool gain = p.name.ends_with("norm.weight");
      const auto numbers = normal(p.size(), site_hash(p.name), p.shape.size() == 2 ? 0.4 : 0.2);
      for (std::size_t i = 0; i < numbers.size(); ++i) p.slot.value.f32()[i] = numbers[i] + (gain ? 1 : 0);
    }
    ready();
  }

  void ready() {
    store.refresh_shadow();
    store.begin_step();
  }

  /// The value or gradient of a parameter; empty for one that is not there.
  Numbers numbers(const Parameter* p, bool gradient = false) const {
    if (p == nullptr) return {};
    const float* x = (gradient ? p->slot.grad : p->slot.value).f32();
    return {x, x + p->size()};
  }

  /// In the order of reference::MultiHeadWeights.
  std::vector<const Parameter*> parameters() const {
    return {attention.qkv.weight, attention.qkv.bias,   attention.q_gain,
            attention.k_gain,     attention.out.weight, attention.out.bias};
  }
};

ModelConfig small_config(std::int64_t d_model, std::int64_t heads, std::int64_t key_heads, bool bias) {
  ModelConfig config;
  config.d_model = d_model;
  config.n_heads = heads;
  config.n_kv_heads = key_heads;
  config.bias = bias;
  return config;
}

/// What a call takes: x (B,T,C), and a memory (B,S,C) or none for self-attention, with a factor for each
/// number of the result.
struct Call {
  std::int64_t B, T, S;
  std::vector<float> x, memory, weights;
  std::vector<std::int32_t> lengths = {};
  bool rope = false;

  bool cross() const { return !memory.empty(); }
};

/// The result, and the gradients of sum(weights * result): of x, the memory, and the module's parameters.
struct Results {
  Numbers out;
  std::vector<Numbers> gradients;
};

Results run(Module& module, Call call, RandomContext random = {}) {
  Workspace workspace;
  Tape tape(workspace, Mode::train, random);
  const std::int64_t C = module.config.d_model;
  const Var x = tape.leaf(Tensor(call.x.data(), {call.B, call.T, C}), true);
  const Var memory = call.cross() ? tape.leaf(Tensor(call.memory.data(), {call.B, call.S, C}), true) : x;
  AttentionContext context;
  if (!call.lengths.empty()) context.lengths = call.lengths.data();
  if (call.rope) context.rotations = rotary_positions(tape, 0, call.T, head_width(module.config), 10000);
  const Var y = module.attention(tape, x, memory, context, nullptr);
  const float* out = y.value().f32();
  Results results{{out, out + y.value().size()}, {}};
  tape.seed(y, Tensor(call.weights.data(), {call.B, call.T, C}));
  tape.backward();
  for (const Var input : {x, memory}) {
    const Tensor g = tape.grad(input);
    results.gradients.emplace_back(g.f32(), g.f32() + g.size());
  }
  for (const Parameter* p : module.parameters()) results.gradients.push_back(module.numbers(p, true));
  return results;
}

/// The same by dual numbers: a derivative for every number of every input, which are x, the memory, and the
/// parameters.
Results run_reference(const Module& module, const std::vector<Numbers>& inputs, const Numbers& weights,
                      const Call& call, const AttentionOptions& options) {
  std::vector<std::vector<Dual>> in;
  for (const Numbers& input : inputs) in.emplace_back(input.begin(), input.end());
  const AttentionShape shape{
      call.B, call.T, call.S, module.config.n_heads, head_width(module.config), key_heads(module.config)};
  const auto evaluate = [&] {
    const reference::MultiHeadWeights<Dual> w = {in[2], in[3], in[4], in[5], in[6], in[7]};
    return reference::multi_head_attention(shape, w, in[0], call.cross() ? in[1] : in[0], options,
                                           call.rope ? 10000 : 0, double(module.attention.eps));
  };
  Results results{{}, std::vector<Numbers>(in.size())};
  for (const Dual& y : evaluate()) results.out.push_back(y.value);
  for (std::size_t which = 0; which < in.size(); ++which)
    for (Dual& number : in[which]) {
      number.slope = 1;
      const auto y = evaluate();
      number.slope = 0;
      double slope = 0;
      for (std::size_t i = 0; i < y.size(); ++i) slope += weights[i] * y[i].slope;
      results.gradients[which].push_back(slope);
    }
  return results;
}

AttentionOptions options_of(const Module& module, const Call& call, Dropout dropout = {}) {
  AttentionOptions options;
  options.mask.causal = !call.cross() && module.attention.causal;
  options.mask.window = call.cross() ? 0 : module.attention.window;
  if (!call.lengths.empty()) options.mask.lengths = call.lengths.data();
  if (!call.cross() && !module.attention.slopes.empty()) options.slopes = module.attention.slopes.data();
  options.dropout = dropout;
  return options;
}

std::vector<Numbers> inputs_of(const Module& module, const Call& call) {
  std::vector<Numbers> all = {reference::widen(call.x), reference::widen(call.memory)};
  for (const Parameter* p : module.parameters()) all.push_back(module.numbers(p));
  return all;
}

/// f32: sums of some ten products, three of them one after the other.
constexpr double tolerance = 1e-5;

void check_equal(const Results& got, const Results& wanted, bool cross) {
  CHECK(relative_error(got.out, wanted.out, 1e-3) < tolerance);
  for (std::size_t i = 0; i < wanted.gradients.size(); ++i) {
    CAPTURE(i);
    if (i == 1 && !cross) continue;  // x itself
    CHECK(relative_error(got.gradients[i], wanted.gradients[i], 1e-3) < tolerance);
  }
}

Call some_call(std::int64_t B, std::int64_t T, std::int64_t S, std::int64_t C) {
  return {B, T, S, normal(B * T * C, 1), normal(B * S * C, 2), normal(B * T * C, 3)};
}

TEST_CASE("cross-attention and self-attention equal their reference, gradients by dual numbers") {
  for (const bool cross : {true, false})
    for (const bool norm : {false, true})
      for (const std::int64_t kv : {4, 2, 1})
        for (const double rate : {0.0, 0.3}) {
          CAPTURE(cross, norm, kv, rate);
          ModelConfig config = small_config(8, 4, kv, norm);
          config.qk_norm = norm;
          config.attention_dropout = rate;
          Module module(config);
          module.attention.causal = kv != 2;
          Call call = some_call(2, 3, 5, 8);
          if (!cross) call.S = call.T, call.memory.clear();
          call.lengths = {static_cast<std::int32_t>(call.S), 2};
          const Dropout dropout =
              rate == 0 ? Dropout() : Dropout(RandomStream(5, site_hash("attention"), 7), rate, 9);
          const Results wanted =
              run_reference(module, inputs_of(module, call), reference::widen(call.weights), call,
                            options_of(module, call, dropout));
          check_equal(run(module, call, {5, 7, 9}), wanted, cross);
        }
}

TEST_CASE("two micro-batches of cross-attention add their gradients") {
  Module module(small_config(8, 2, 0, true));
  const Call call = some_call(1, 3, 4, 8);
  const Results once = run(module, call);
  const Results twice = run(module, call);
  for (std::size_t i = 2; i < once.gradients.size(); ++i)
    for (std::size_t j = 0; j < once.gradients[i].size(); ++j)
      CHECK(std::abs(twice.gradients[i][j] - 2 * once.gradients[i][j]) < 1e-5);
}

TEST_CASE("with a cache the memory's keys and values are computed once") {
  for (const Type type : {Type::f32, Type::bf16}) {
    Module module(small_config(16, 4, 2, true), type);
    Call call = some_call(1, 5, 6, 16);
    KVCache cache(module.config, 1, 6, type);
    const std::int32_t length = 4;
    AttentionContext context;
    context.lengths = &length;
    Workspace workspace;
    Tape tape(workspace, Mode::infer);
    const auto attend = [&](std::int64_t first, std::int64_t T, LayerCache* layer) {
      const Var x = tape.leaf(Tensor(call.x.data() + first * 16, {1, T, 16}));
      const Var memory = tape.leaf(Tensor(call.memory.data(), {1, 6, 16}));
      std::vector<float> wide(static_cast<std::size_t>(T * 16));
      convert({Tensor(wide.data(), {1, T, 16}), 0},
              module.attention(tape, x, memory, context, layer).value());
      return wide;
    };
    const auto whole = attend(0, 5, nullptr);
    for (std::int64_t t = 0; t < 5; ++t) {
      const auto step = attend(t, 1, cache.layer(0));
      if (t == 0) std::fill(call.memory.begin(), call.memory.end(), NAN);  // nobody reads it again
      for (std::size_t c = 0; c < 16; ++c)
        CHECK(std::abs(step[c] - whole[static_cast<std::size_t>(t) * 16 + c]) <
              (type == Type::f32 ? 1e-5 : 0.03));
    }
  }
}

TEST_CASE("in bf16 a memory that several layers read gets an f32 gradient, whose sum rounds once") {
  // Each layer's products round their operands by 2^-9: some ten of these add up like a random walk to 1 %.
  const Call call = some_call(2, 3, 5, 16);
  std::vector<float> memory_gradient[2];
  for (const Type type : {Type::f32, Type::bf16}) {
    Module first(small_config(16, 2, 0, true), type), second(small_config(16, 2, 1, false), type);
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    Call copy = call;
    const Var source = tape.leaf(Tensor(copy.memory.data(), {2, 5, 16}), true);
    std::vector<float> gains(16, 1.0F);
    const Var gain = tape.leaf(Tensor(gains.data(), {16}));
    const Var memory =
        residual_norm(tape, source, Var(), NormKind::rmsnorm, gain, Var(), 1e-5F, {}, type).normed;
    const Var x = tape.leaf(Tensor(copy.x.data(), {2, 3, 16}), true);
    Var y = x;
    for (Module* layer : {&first, &second})
      y = residual_norm(tape, y, layer->attention(tape, y, memory, {}, nullptr), NormKind::rmsnorm, gain,
                        Var(), 1e-5F, {})
              .normed;
    tape.seed(y, Tensor(copy.weights.data(), {2, 3, 16}));
    CHECK(tape.sink(memory).to.type == Type::f32);
    memory.slot().written = false;
    tape.backward();
    const float* g = tape.grad(source).f32();
    memory_gradient[type == Type::f32 ? 0 : 1].assign(g, g + 2 * 5 * 16);
  }
  CHECK(relative_error(memory_gradient[1], memory_gradient[0]) < 0.03);
  CHECK(memory_gradient[1] != memory_gradient[0]);
}

json fixture() {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/fixtures/attention_family.json");
  REQUIRE(file);
  return json::parse(file);
}

Numbers flat(const json& x) {
  if (!x.is_array()) return {x.get<double>()};
  Numbers all;
  for (const json& part : x) {
    const Numbers numbers = flat(part);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

std::vector<float> narrow(const Numbers& x) { return {x.begin(), x.end()}; }

/// The fixture multiplies from the right: W (in,out) there is (out,in) here.
Numbers transposed(const json& w) {
  Numbers t;
  for (std::size_t j = 0; j < w[0].size(); ++j)
    for (std::size_t i = 0; i < w.size(); ++i) t.push_back(w[i][j].get<double>());
  return t;
}

/// q, k and v's rows, one below the other.
Numbers packed(const json& j, const std::string& prefix) {
  Numbers all;
  for (const char* name : {"q", "k", "v"}) {
    const Numbers rows = transposed(j.at(prefix + name));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST_CASE("multi-head attention equals PyTorch in float64: its reference to 1e-10, the module to 1e-5") {
  int seen = 0;
  const json file = fixture();
  for (const json& j : file.at("cases")) {
    if (!j.contains("heads")) continue;  // scores and kinds of another operation
    CAPTURE(j.at("name").get<std::string>());
    const bool cross = j.contains("M");
    const auto C = static_cast<std::int64_t>(j.at("X")[0][0].size());
    ModelConfig config = small_config(C, j.at("heads"), j.value("kv_heads", std::int64_t{0}), false);
    config.position = j.contains("slopes") ? PositionKind::alibi : PositionKind::none;
    if (j.contains("window")) config.attention = AttentionKind::sliding_window, config.window = j["window"];
    Module module(config);
    const std::vector<Numbers> inputs = {flat(j.at("X")),
                                         cross ? flat(j.at("M")) : Numbers(),
                                         packed(j, "W_"),
                                         {},
                                         {},
                                         {},
                                         transposed(j.at("W_o")),
                                         {}};
    for (const std::size_t which : {0U, 4U})
      std::copy(inputs[2 + which].begin(), inputs[2 + which].end(),
                module.parameters()[which]->slot.value.f32());
    Call call{static_cast<std::int64_t>(j.at("X").size()),
              static_cast<std::int64_t>(j.at("X")[0].size()),
              static_cast<std::int64_t>(j.at(cross ? "M" : "X")[0].size()),
              narrow(inputs[0]),
              narrow(inputs[1]),
              narrow(flat(j.at("R")))};
    if (j.contains("key_lengths")) call.lengths = j["key_lengths"].get<std::vector<std::int32_t>>();
    call.rope = j.at("name").get<std::string>().starts_with("rope");
    const Results wanted{flat(j.at("O")),
                         {flat(j.at("grad_X")),
                          cross ? flat(j.at("grad_M")) : Numbers(),
                          packed(j, "grad_W_"),
                          {},
                          {},
                          {},
                          transposed(j.at("grad_W_o")),
                          {}}};
    check_equal(run(module, call), wanted, cross);
    const Results exact = run_reference(module, inputs, flat(j.at("R")), call, options_of(module, call));
    CHECK(relative_error(exact.out, wanted.out, 1e-3) < 1e-10);
    for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
      CHECK(relative_error(exact.gradients[i], wanted.gradients[i], 1e-3) < 1e-10);
    ++seen;
  }
  CHECK(seen == 6);
}

}  // namespace
}  // namespace quern
