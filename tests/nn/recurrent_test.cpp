#include "quern/nn/recurrent.hpp"

#include <map>

#include "reference/check.hpp"
#include "reference/recurrent.hpp"

namespace quern {
namespace {

using namespace reference;

constexpr std::int64_t B = 3, T = 7, C = 20, V = 11;

std::vector<std::int32_t> tokens() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < B * T; ++i) ids.push_back(i * i % V);
  return ids;
}

struct Model {
  ModelConfig config;
  ParamStore store;
  RecurrentStack stack;
  Workspace workspace;

  explicit Model(ModelConfig config_, Type compute = Type::f32, Backing backing = Backing::memory)
      : config(config_), store(compute, backing), stack(Scope(store, "decoder"), config), workspace(backing) {
    store.allocate(true);
    if (backing == Backing::memory) store.initialise(3);
    store.begin_step();
  }

  std::vector<float> infer(const std::vector<std::int32_t>& ids, std::int64_t length, KVCache* cache) {
    Tape tape(workspace, Mode::infer);
    const Tensor y =
        stack(tape, {ids.data(), static_cast<std::int64_t>(ids.size()) / length, length}, cache).value();
    return {y.f32(), y.f32() + y.size()};
  }
};

ModelConfig config_of(Cell cell, double dropout = 0) {
  ModelConfig config;
  config.architecture = Architecture::rnn;
  config.vocab_size = V;
  config.d_model = C;
  config.n_layers = 2;
  config.cell = cell;
  config.dropout = dropout;
  return config;
}

std::vector<double> numbers_of(const Model& model, const std::string& name) {
  for (const Parameter& p : model.store.all())
    if (p.name == name) return {p.slot.value.f32(), p.slot.value.f32() + p.size()};
  FAIL("no parameter " << name);
  return {};
}

/// The stack in double.
std::vector<double> wanted(const Model& model, const std::vector<std::int32_t>& ids) {
  const auto table = numbers_of(model, "decoder.embedding.tokens.weight");
  std::vector<double> x;
  for (const std::int32_t id : ids) {
    const auto row = slice(table, static_cast<std::size_t>(id * C), static_cast<std::size_t>(C));
    x.insert(x.end(), row.begin(), row.end());
  }
  for (const std::string layer : {"decoder.layers.0.", "decoder.layers.1."}) {
    const auto gates = affine(x, numbers_of(model, layer + "input.weight"),
                              numbers_of(model, layer + "input.bias"), static_cast<std::size_t>(C));
    x = recurrent({B, T, C, model.config.cell}, gates, numbers_of(model, layer + "hidden.weight"),
                  numbers_of(model, layer + "hidden.bias"));
  }
  return x;
}

TEST_CASE("a stack of recurrent layers is embedding and layers, one on top of the other") {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    Model model(config_of(cell, 0.3));  // which inference does not apply
    CHECK(relative_error(model.infer(tokens(), T, nullptr), wanted(model, tokens())) < 1e-5);
  }
}

TEST_CASE("a stack of recurrent layers read token by token is the stack read at once") {
  for (const Cell cell : {Cell::gru, Cell::lstm})
    for (const Type compute : {Type::f32, Type::bf16}) {
      Model model(config_of(cell), compute);
      const auto ids = tokens();
      const auto rows = [](Var y) {
        std::vector<float> all;
        for (std::int64_t i = 0; i < y.shape().size(); ++i)
          all.push_back(y.shape().type == Type::f32 ? y.value().f32()[i]
                                                    : to_float(static_cast<const bf16*>(y.value().data)[i]));
        return all;
      };
      std::vector<float> whole;
      {
        Tape tape(model.workspace, Mode::infer);
        whole = rows(model.stack(tape, {ids.data(), B, T}, nullptr));
      }
      KVCache cache(model.config, B, T, Type::f32);
      CHECK(cache.rolls());
      for (int round = 0; round < 2; ++round) {  // again after clear()
        for (std::int64_t t = 0; t < T; ++t) {
          std::vector<std::int32_t> now;
          for (std::int64_t b = 0; b < B; ++b) now.push_back(ids[static_cast<std::size_t>(b * T + t)]);
          Tape tape(model.workspace, Mode::infer);
          const auto got = rows(model.stack(tape, {now.data(), B, 1}, &cache));
          for (std::size_t b = 0; b < B; ++b)
            CHECK(relative_error(slice(got, b * C, C), slice(whole, (b * T + std::size_t(t)) * C, C)) <
                  (compute == Type::f32 ? 2e-6 : 0.02));  // products of more rows may add in another order
          CHECK(cache.length() == t + 1);
        }
        cache.clear();
      }
    }
}

TEST_CASE("a recurrent layer in reverse is the layer on the sequence turned round") {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    ParamStore store;
    const RecurrentLayer layer(Scope(store, "encoder"), cell, 5, C);
    store.allocate(false);
    store.initialise(1);
    auto x = normal(B * T * 5, 2);
    std::vector<float> turned(x.size());
    for (std::size_t b = 0; b < B; ++b)
      for (std::size_t t = 0; t < T; ++t)
        std::copy_n(x.begin() + std::ptrdiff_t((b * T + t) * 5), 5,
                    turned.begin() + std::ptrdiff_t((b * T + T - 1 - t) * 5));
    Workspace workspace;
    Tape tape(workspace, Mode::infer);
    const Tensor forward =
        layer(tape, tape.leaf(Tensor(turned.data(), {B, T, 5})), nullptr, false, nullptr).value();
    const Tensor reverse =
        layer(tape, tape.leaf(Tensor(x.data(), {B, T, 5})), nullptr, true, nullptr).value();
    std::vector<float> there, back;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t t = 0; t < T; ++t)
        for (std::int64_t c = 0; c < C; ++c) {
          there.push_back(forward.f32()[(b * T + T - 1 - t) * C + c]);
          back.push_back(reverse.f32()[(b * T + t) * C + c]);
        }
    CHECK(relative_error(back, there) <
          2e-6);  // a product's rows add in an order that depends on their place
  }
}

TEST_CASE("recurrent layers start uniform within 1 / sqrt(C), biases too, and biases do not decay") {
  Model model(config_of(Cell::lstm));
  const double bound = 1 / std::sqrt(double(C));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const Parameter& p : model.store.all()) {
    CAPTURE(p.name);
    shapes[p.name] = p.shape;
    float low = 0, high = 0;
    for (std::int64_t i = 0; i < p.size(); ++i) {
      low = std::min(low, p.slot.value.f32()[i]);
      high = std::max(high, p.slot.value.f32()[i]);
    }
    CHECK(-low <= bound);
    CHECK(high <= bound);
    CHECK(high - low > 1.5 * bound);
    CHECK(p.decays == (p.shape.size() == 2));
    if (p.name.starts_with("decoder.layers") && p.decays)
      CHECK(p.matrices == std::vector<std::int64_t>(4, C));
  }
  CHECK(shapes.size() == 9);
  CHECK(shapes["decoder.layers.1.input.weight"] == std::vector<std::int64_t>{4 * C, C});
  CHECK(shapes["decoder.layers.1.hidden.weight"] == std::vector<std::int64_t>{4 * C, C});
  CHECK(shapes["decoder.layers.0.hidden.bias"] == std::vector<std::int64_t>{4 * C});
}

/// One pass through the stack, forward and backward.
struct Pass {
  std::vector<float> gradients;
  std::size_t held;
  std::map<std::string, int> calls;
};

Pass pass_of(Model& model, std::uint64_t first_sequence, const std::vector<std::int32_t>& ids) {
  model.store.begin_step();
  Profile profile;
  profile.start();
  {
    Tape tape(model.workspace, Mode::train, {1, 2, first_sequence});
    const Var y = model.stack(tape, {ids.data(), std::int64_t(ids.size()) / T, T}, nullptr);
    std::vector<float> ones(static_cast<std::size_t>(y.shape().size()), 1);
    if (tape.planning())
      tape.sink(y);
    else
      tape.seed(y, Tensor(ones.data(), {y.dim(0), T, C}));
    tape.backward();
  }
  profile.stop();
  Pass found{{}, model.workspace.pool.bytes_held(), {}};
  for (const Slice& s : profile.slices())
    if (s.phase != Phase::thread)
      found.calls[std::string(name(s.phase)) + " " + std::string(s.module) + " " + std::string(s.name)]++;
  if (!model.workspace.pool.bytes_in_use() && model.store.backing() == Backing::memory)
    found.gradients.assign(model.store.gradients(), model.store.gradients() + model.store.slab_size());
  return found;
}

TEST_CASE("the parts of a batch drop what the whole drops, and their gradients add up to its") {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    Model model(config_of(cell, 0.3));
    const auto ids = tokens();
    const auto whole = pass_of(model, 0, ids).gradients;
    std::vector<float> sum(whole.size());
    for (std::uint64_t b = 0; b < B; ++b) {
      const auto part = pass_of(model, b, slice(ids, b * T, T)).gradients;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    CHECK(relative_error(sum, whole) < 1e-5);
    Model other(config_of(cell));
    CHECK(relative_error(pass_of(other, 0, ids).gradients, whole) > 0.01);
  }
}

TEST_CASE("a planned pass through recurrent layers asks for the memory of a real one") {
  for (const Cell cell : {Cell::gru, Cell::lstm})
    for (const Type compute : {Type::f32, Type::bf16}) {
      Model real(config_of(cell, 0.1), compute), plan(config_of(cell, 0.1), compute, Backing::none);
      const auto a = pass_of(real, 0, tokens()), b = pass_of(plan, 0, tokens());
      CHECK(a.calls == b.calls);
      CHECK(double(b.held) == Approx(double(a.held)).epsilon(0.02));
      CHECK(plan.workspace.pool.bytes_in_use() == 0);
      for (const std::string phase : {"forward ", "backward "}) {
        CHECK(b.calls.count(phase + "decoder.embedding embedding") == 1);
        CHECK(b.calls.count(phase + "decoder dropout") == 1);
        CHECK(b.calls.count(phase + "decoder.layers.0.input linear") == 1);
        CHECK(b.calls.count(phase + "decoder.layers.1 recurrent") == 1);
      }
    }
}

}  // namespace
}  // namespace quern
