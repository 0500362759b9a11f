// What operations say that they cost, against figures by hand, and a planned pass against a real one.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>

#include "catch.hpp"
#include "quern/autograd/ops.hpp"
#include "quern/nn/model.hpp"

using namespace quern;

namespace {

struct Numbers {
  std::deque<std::vector<float>> blocks;

  Tensor operator()(std::initializer_list<std::int64_t> shape) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    return {blocks.emplace_back(static_cast<std::size_t>(n), 0.1F).data(), shape};
  }
};

/// The slices of one phase that a pass through `op` leaves.
template <class Op>
std::map<Phase, Slice> slices_of(Op&& op) {
  Workspace workspace;
  Profile profile;
  profile.start();
  {
    Tape tape(workspace, Mode::train);
    const Var y = op(tape);
    if (y) {
      std::vector<float> ones(static_cast<std::size_t>(y.shape().size()), 1);
      Tensor gradient = y.shape();
      gradient.data = ones.data();
      tape.seed(y, gradient);
      tape.backward();
    }
  }
  profile.stop();
  std::map<Phase, Slice> found;
  for (const Slice& slice : profile.slices())
    if (slice.phase != Phase::thread) found[slice.phase] = slice;
  return found;
}

void check_cost(const Slice& slice, std::string_view name, double flops, double bytes) {
  CHECK(slice.name == name);
  CHECK(slice.cost.flops == flops);
  CHECK(slice.cost.bytes == bytes);
}

}  // namespace

TEST_CASE("linear: x (2,3,4), w (5,4)") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    return linear(tape, tape.leaf(numbers({2, 3, 4}), true), tape.leaf(numbers({5, 4}), true), Var());
  });
  check_cost(slices[Phase::forward], "linear", 2 * 6 * 5 * 4, 4 * (24 + 20 + 30));
  check_cost(slices[Phase::backward], "linear", 2 * 240, 4 * (30 + 24 + 20) + 4 * (30 + 20 + 24));
}

TEST_CASE("feed_forward: x (1,3,4), hidden width 8") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    return feed_forward(tape, tape.leaf(numbers({1, 3, 4}), true), tape.leaf(numbers({8, 4}), true), Var(),
                        tape.leaf(numbers({4, 8}), true), Var(), Activation::gelu);
  });
  // Two products of 2·3·4·8, each reading 12 or 24, and 32, and writing 24 or 12; the activation moves 2
  // · 24.
  check_cost(slices[Phase::forward], "feed_forward", 2 * 192, 4 * (12 + 32 + 24 + 48 + 24 + 32 + 12));
  check_cost(slices[Phase::backward], "feed_forward", 4 * 192, 4 * (2 * 68 + 4 * 24 + 2 * 68));
}

TEST_CASE("feed_forward with relu makes its hidden layer once") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    return feed_forward(tape, tape.leaf(numbers({1, 3, 4}), true), tape.leaf(numbers({128, 4}), true), Var(),
                        tape.leaf(numbers({4, 128}), true), Var(), Activation::relu);
  });
  const double up = 12 + 512 + 384, down = 384 + 512 + 12;  // spaced rows count what is read of them
  check_cost(slices[Phase::forward], "feed_forward", 2 * 2 * 3 * 4 * 128, 4 * (up + 2 * 384 + down));
  check_cost(slices[Phase::backward], "feed_forward", 4 * 2 * 3 * 4 * 128, 4 * (2 * up + 3 * 384 + 2 * down));
}

TEST_CASE("feed_forward with a gate: the pre-activation is twice as wide as the hidden layer") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    return feed_forward(tape, tape.leaf(numbers({1, 3, 4}), true), tape.leaf(numbers({16, 4}), true), Var(),
                        tape.leaf(numbers({4, 8}), true), Var(), Activation::swiglu);
  });
  const double up = 12 + 64 + 48, down = 24 + 32 + 12;  // numbers of x, w1, pre; hidden, w2, y
  check_cost(slices[Phase::forward], "feed_forward", 2 * 3 * 4 * (16 + 8), 4 * (up + 48 + 24 + down));
  check_cost(slices[Phase::backward], "feed_forward", 2 * 2 * 3 * 4 * (16 + 8),
             4 * (2 * up + 2 * 48 + 2 * 24 + 2 * down));
}

TEST_CASE("attention: B 2, T 3, C 4, causal, is two products a visible pair, and five backward") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    const Var q = tape.leaf(numbers({2, 3, 4}), true), k = tape.leaf(numbers({2, 3, 4}), true),
              v = tape.leaf(numbers({2, 3, 4}), true);
    return attention(tape, q, k, v, 2, 2, 1, AttentionMask{}, {});
  });
  const double product = 2.0 * 4 * (2 * (1 + 2 + 3));  // 2 C for each of B T (T + 1) / 2 pairs
  check_cost(slices[Phase::forward], "attention", 2 * product, 4 * 4 * 24);
  check_cost(slices[Phase::backward], "attention", 5 * product, 8 * 4 * 24);
}

TEST_CASE("attention over padded sequences counts what each one sees") {
  Numbers numbers;
  const std::int32_t lengths[] = {3, 1};
  auto slices = slices_of([&](Tape& tape) {
    const Var q = tape.leaf(numbers({2, 3, 4}), true), k = tape.leaf(numbers({2, 3, 4}), true),
              v = tape.leaf(numbers({2, 3, 4}), true);
    AttentionMask mask;
    mask.causal = false;
    mask.lengths = lengths;
    return attention(tape, q, k, v, 2, 2, 1, mask, {});
  });
  CHECK(slices[Phase::forward].cost.flops == 2 * 2.0 * 4 * (3 * 3 + 3 * 1));
}

TEST_CASE(
    "attention in a window, with one key head for two: pairs inside the window, and fewer keys to read") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    const Var q = tape.leaf(numbers({2, 5, 4}), true), k = tape.leaf(numbers({2, 5, 2}), true),
              v = tape.leaf(numbers({2, 5, 2}), true);
    AttentionMask mask;
    mask.window = 2;
    return attention(tape, q, k, v, 2, 1, 1, mask, {});
  });
  const double product = 2.0 * 4 * 2 * (1 + 2 + 2 + 2 + 2);
  check_cost(slices[Phase::forward], "attention", 2 * product, 4 * (2 * 40 + 2 * 20));
  check_cost(slices[Phase::backward], "attention", 5 * product, 4 * (4 * 40 + 4 * 20));
}

TEST_CASE("head_products: x (2,3,8) in 2 heads, each to 5") {
  Numbers numbers;
  auto slices = slices_of([&](Tape& tape) {
    return head_products(tape, tape.leaf(numbers({2, 3, 8}), true), tape.leaf(numbers({8, 5}), true), 2);
  });
  check_cost(slices[Phase::forward], "head_products", 2 * 2 * 6 * 4 * 5, 4 * (48 + 40 + 60));
  check_cost(slices[Phase::backward], "head_products", 2 * 480, 2 * 4 * (48 + 40 + 60));
}

TEST_CASE("linear_attention: q (2,5,4) in 2 heads, one key head, counts products with the running sums") {
  for (const bool favor : {false, true}) {
    Numbers numbers;
    auto slices = slices_of([&](Tape& tape) {
      const Var q = tape.leaf(numbers({2, 5, 4}), true), k = tape.leaf(numbers({2, 5, 2}), true),
                v = tape.leaf(numbers({2, 5, 2}), true);
      return linear_attention(tape, q, k, v, favor ? tape.leaf(numbers({3, 2})) : Var(), 2, 1, true);
    });
    const double M = favor ? 3 : 2, queries = 2 * M * 40, keys = 2 * M * 20;
    check_cost(slices[Phase::forward], "linear_attention", (favor ? 2 : 1) * (queries + keys),
               4 * (2 * 40 + 2 * 20));
    check_cost(slices[Phase::backward], "linear_attention",
               2 * queries + 3 * keys + (favor ? 3 * (queries + keys) : 0), 4 * (3 * 40 + 4 * 20));
  }
}

TEST_CASE("rotary: x (2,3,8) in 2 heads reads the angles (3,4) and, with a gain, x again in backward") {
  for (const bool gain : {false, true}) {
    Numbers numbers;
    auto slices = slices_of([&](Tape& tape) {
      const Var table = tape.leaf(numbers({3, 4}));
      return rotary(tape, tape.leaf(numbers({2, 3, 8}), true), 2, table,
                    gain ? tape.leaf(numbers({4}), true) : Var(), 1e-5F);
    });
    check_cost(slices[Phase::forward], "rotary", 0, 4 * (2 * 48 + 12));
    check_cost(slices[Phase::backward], "rotary", 0, 4 * ((gain ? 3 : 2) * 48 + 12));
  }
}

TEST_CASE("rotary_positions write their table, once a pass") {
  auto slices = slices_of([&](Tape& tape) {
    rotary_positions(tape, 0, 3, 4, 10000);
    return Var();
  });
  check_cost(slices[Phase::forward], "rotary_positions", 0, 4 * 12);
}

TEST_CASE("residual_norm: (2,3,4), with and without a branch") {
  Numbers numbers;
  const auto norm = [&](bool branch) {
    return slices_of([&](Tape& tape) {
      const Var stream = tape.leaf(numbers({2, 3, 4}), true);
      const Var other = branch ? tape.make({2, 3, 4}) : Var();
      if (branch) std::fill_n(other.value().f32(), 24, 0.5F);
      return residual_norm(tape, stream, other, NormKind::layernorm, tape.leaf(numbers({4}), true), Var(),
                           1e-5F, {})
          .normed;
    });
  };
  auto with = norm(true), without = norm(false);
  check_cost(with[Phase::forward], "residual_norm", 0, 4 * 4 * 24);   // stream, branch; sum, normed
  check_cost(with[Phase::backward], "residual_norm", 0, 5 * 4 * 24);  // dx, dh, x; dstream, dbranch
  check_cost(without[Phase::forward], "residual_norm", 0, 2 * 4 * 24);
  check_cost(without[Phase::backward], "residual_norm", 0, 4 * 4 * 24);
}

TEST_CASE("embedding: 2 sequences of 3 tokens, C 4") {
  Numbers numbers;
  const std::int32_t ids[] = {0, 1, 2, 0, 1, 2};
  auto slices = slices_of([&](Tape& tape) {
    return embedding(tape, {ids, 2, 3}, tape.leaf(numbers({5, 4}), true), 1, tape.leaf(numbers({3, 4}), true),
                     0, {});
  });
  check_cost(slices[Phase::forward], "embedding", 0, 4 * (24 + 24 + 12));
  check_cost(slices[Phase::backward], "embedding", 0, 4 * (24 + 24 + 24 + 12 + 12));
}

TEST_CASE("cross_entropy_head: 3 rows of 4, vocabulary 7, makes its gradients at once") {
  Numbers numbers;
  const std::int32_t targets[] = {1, 2, 3};
  auto slices = slices_of([&](Tape& tape) {
    cross_entropy_head(tape, tape.leaf(numbers({1, 3, 4}), true), tape.leaf(numbers({7, 4}), true), targets,
                       3, 0);
    return Var();
  });
  check_cost(slices[Phase::forward], "cross_entropy_head", 3 * 2 * 3 * 4 * 7,
             4 * (12 + 28 + 3 * 21) + 4 * (12 + 28 + 2 * 21 + 12 + 28));
}

namespace {

ModelConfig small_model() {
  ModelConfig config;
  config.d_model = 32;
  config.n_layers = 3;
  config.n_heads = 4;
  config.vocab_size = 50;
  config.context_length = 24;
  config.dropout = config.attention_dropout = 0.1;
  return config;
}

/// What differs in what a pass makes, keeps and makes again.
std::array<ModelConfig, 7> models() {
  std::array<ModelConfig, 7> all;
  all.fill(small_model());
  all[1].norm_placement = NormPlacement::post;
  all[2].norm = NormKind::rmsnorm;
  all[2].activation = Activation::swiglu;
  all[2].position = PositionKind::rope;
  all[2].n_kv_heads = 2;
  all[2].qk_norm = true;
  all[3].position = PositionKind::alibi;
  all[3].attention = AttentionKind::sliding_window;
  all[3].window = 5;
  all[3].tie_embeddings = false;
  all[4].score = ScoreKind::additive;
  all[5].attention = AttentionKind::linear;
  all[5].feature_map = FeatureMap::favor;
  all[5].attention_dropout = 0;
  all[6].activation = Activation::relu;
  all[6].d_model = 64;  // hidden rows that are spaced in bf16 too
  return all;
}

double pass(Model& model, Workspace& workspace, const std::vector<std::int32_t>& ids,
            Recompute recompute = Recompute::none) {
  model.parameters().begin_step();
  Tape tape(workspace, Mode::train, {}, recompute);
  const double nll = model.loss(tape, {ids.data(), 4, 24}, ids.data(), 96, 0).nll;
  tape.backward();
  return nll;
}

}  // namespace

TEST_CASE("operations know their module, forward and backward") {
  Model model(small_model(), true);
  model.parameters().initialise(1);
  Workspace workspace;
  Profile profile;
  profile.start();
  pass(model, workspace, std::vector<std::int32_t>(96, 3));
  profile.stop();
  std::map<std::string, int> calls;
  for (const Slice& slice : profile.slices())
    if (slice.phase != Phase::thread)
      calls[std::string(name(slice.phase)) + " " + std::string(slice.module) + " " +
            std::string(slice.name)]++;
  for (const std::string phase : {"forward ", "backward "}) {
    CHECK(calls[phase + "decoder.embedding embedding"] == 1);
    CHECK(calls[phase + "decoder.blocks.1.attention_norm residual_norm"] == 1);
    CHECK(calls[phase + "decoder.blocks.1.attention.qkv linear"] == 1);
    CHECK(calls[phase + "decoder.blocks.1.attention attention"] == 1);
    CHECK(calls[phase + "decoder.blocks.1.attention.out linear"] == 1);
    CHECK(calls[phase + "decoder.blocks.2.feed_forward feed_forward"] == 1);
    CHECK(calls[phase + "decoder.norm residual_norm"] == 1);
  }
  CHECK(calls["forward head cross_entropy_head"] == 1);
  CHECK(calls.size() == 2 * (1 + 3 * 6 + 1) + 1);
}

TEST_CASE("a planned pass asks for the memory and the arithmetic of a real one, and touches nothing") {
  // Mean and deviation of each row of each norm, and the logsumexps or sums of weights; RMSNorm has no mean,
  // QK-norm one number a head.
  constexpr std::int64_t rows = 96, lse = 3 * 4 * rows;
  const std::int64_t statistics[] = {14 * rows + lse, 12 * rows + lse, 7 * rows + lse + 3 * (4 + 2) * rows,
                                     14 * rows + lse, 14 * rows + lse, 14 * rows + lse,
                                     14 * rows + lse};
  const auto all = models();
  for (std::size_t i = 0; i < 6 * all.size(); ++i) {
    const std::size_t m = i / 6;
    const ModelConfig& config = all[m];
    const Type compute = i % 2 == 0 ? Type::f32 : Type::bf16;
    const Recompute recompute =
        std::array{Recompute::none, Recompute::block, Recompute::attention}[i / 2 % 3];
    const std::vector<std::int32_t> ids(rows, 3);
    const auto costs = [&](Model& model, Workspace& workspace) {
      Profile profile;
      profile.start();
      pass(model, workspace, ids, recompute);
      profile.stop();
      std::vector<std::tuple<std::string, Phase, double, double>> found;
      for (const Slice& s : profile.slices())
        if (s.phase != Phase::thread)
          found.emplace_back(std::string(s.module) + s.name.data(), s.phase, s.cost.flops, s.cost.bytes);
      return found;
    };
    Model model(config, true, compute);
    model.parameters().initialise(1);
    Workspace workspace;
    const auto real = costs(model, workspace);
    Model shapes(config, true, compute, Backing::none);
    Workspace plan(Backing::none);
    const auto planned = costs(shapes, plan);
    CHECK(planned == real);
    CHECK(shapes.parameters().slab_size() == model.parameters().slab_size());
    const double ratio =
        static_cast<double>(plan.pool.bytes_held()) / static_cast<double>(workspace.pool.bytes_held());
    CAPTURE(m, recompute, ratio, plan.pool.bytes_held());
    CHECK(ratio > 0.98);
    CHECK(ratio < 1.02);
    CHECK(plan.pool.bytes_in_use() == 0);
    if (recompute == Recompute::none) CHECK(plan.planned_statistics_peak == 4 * statistics[m]);
  }
}
