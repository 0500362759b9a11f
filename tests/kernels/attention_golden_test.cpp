// The kernel against numbers from PyTorch in float64: tests/fixtures/attention.json (one head) and
// attention_family.json (several heads, cross-attention, padding). The projections around it are done here in
// double.
#include <fstream>
#include <nlohmann/json.hpp>

#include "quern/kernels/attention.hpp"
#include "quern/kernels/rotary.hpp"
#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;
using nlohmann::json;

namespace {

struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> data;

  double& at(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * cols + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return data[static_cast<std::size_t>(i * cols + j)]; }
};

void flatten(const json& x, std::vector<double>& to) {
  if (x.is_array())
    for (const json& part : x) flatten(part, to);
  else
    to.push_back(x.get<double>());
}

/// Nested lists as a matrix, all axes but the last flattened.
Matrix read(const json& x) {
  Matrix m;
  flatten(x, m.data);
  const json* row = &x;
  while (row->at(0).is_array()) row = &row->at(0);
  m.cols = static_cast<std::int64_t>(row->size());
  m.rows = static_cast<std::int64_t>(m.data.size()) / m.cols;
  return m;
}

Matrix transposed(const Matrix& a) {
  Matrix t{a.cols, a.rows, std::vector<double>(a.data.size())};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) t.at(j, i) = a.at(i, j);
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  REQUIRE(a.cols == b.rows);
  Matrix c{a.rows, b.cols, std::vector<double>(static_cast<std::size_t>(a.rows * b.cols))};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.cols; ++k)
      for (std::int64_t j = 0; j < b.cols; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

Matrix sum(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

std::vector<float> narrow(const Matrix& m) { return {m.data.begin(), m.data.end()}; }
Matrix widen(const std::vector<float>& x, std::int64_t cols) {
  return {static_cast<std::int64_t>(x.size()) / cols, cols, reference::widen(x)};
}

/// Inputs are rounded to float (2^-24), everything in the kernel is a sum of at most 5 terms: relative to a
/// tensor's largest number the error stays within some 10 roundings.
void check_near(const Matrix& got, const json& wanted) {
  CHECK(relative_error(got.data, read(wanted).data, 1e-3) < 2e-6);
}

/// One case: x queries, m keys and values, w the projections (query, key, value), `out_weight` empty for
/// none.
struct Case {
  std::int64_t B, H;
  Matrix x, m, w[3], out_weight, R;
  AttentionMask mask;
  bool self;
  std::int64_t key_heads = H;
  bool rope = false;
  std::vector<float> slopes = {};
};

/// Heads turned by positions 0, 1, …, or back.
void turn(std::vector<float>& x, std::int64_t B, std::int64_t heads, std::int64_t D, bool back) {
  const std::int64_t T = static_cast<std::int64_t>(x.size()) / (B * heads * D);
  std::vector<float> table(static_cast<std::size_t>(T * D));
  const Tensor turns(table.data(), {T, D}), view(x.data(), {B, T, heads * D});
  rotary_table(turns, 0, 10000);
  if (back)
    rotary_backward({view, 0}, {}, view, {}, turns, nullptr, nullptr, heads, {});
  else
    rotary_forward(view, view, turns, nullptr, nullptr, 0, heads);
}

void check(const Case& c, const json& j, const std::string names[3], const std::string& output) {
  const std::int64_t T = c.x.rows / c.B, S = c.m.rows / c.B, C = c.w[0].cols, D = C / c.H;
  std::vector<float> q = narrow(product(c.x, c.w[0])), k = narrow(product(c.m, c.w[1])),
                     v = narrow(product(c.m, c.w[2]));
  const bool projected = !c.out_weight.data.empty();
  std::vector<float> dout = narrow(projected ? product(c.R, transposed(c.out_weight)) : c.R);
  std::vector<float> out = poison(c.B * T * C), lse = poison(c.B * c.H * T);
  const std::int64_t K = c.key_heads * D;
  std::vector<float> dq = poison(c.B * T * C), dk = poison(c.B * S * K), dv = poison(c.B * S * K);
  const auto view = [&](std::vector<float>& data, std::int64_t rows) {
    return Tensor(data.data(), {c.B, rows, std::int64_t(data.size()) / (c.B * rows * D), D});
  };
  if (c.rope) turn(q, c.B, c.H, D, false), turn(k, c.B, c.key_heads, D, false);
  AttentionOptions options;
  options.scale = static_cast<float>(1 / std::sqrt(double(D)));
  options.mask = c.mask;
  if (!c.slopes.empty()) options.slopes = c.slopes.data();
  std::vector<float> scratch(attention_backward_scratch(c.B, T, S, c.key_heads, D));
  attention_forward(view(out, T), lse.data(), view(q, T), view(k, S), view(v, S), options);
  attention_backward({view(dq, T), 0}, {view(dk, S), 0}, {view(dv, S), 0}, view(dout, T), view(out, T),
                     lse.data(), view(q, T), view(k, S), view(v, S), options, scratch);
  if (c.rope) turn(dq, c.B, c.H, D, true), turn(dk, c.B, c.key_heads, D, true);

  check_near(projected ? product(widen(out, C), c.out_weight) : widen(out, C), j.at(output));
  const Matrix d[3] = {widen(dq, C), widen(dk, K), widen(dv, K)};
  for (int i = 0; i < 3; ++i)
    check_near(product(transposed(i == 0 ? c.x : c.m), d[i]), j.at("grad_W_" + names[i]));
  const Matrix dx = product(d[0], transposed(c.w[0]));
  const Matrix dm = sum(product(d[1], transposed(c.w[1])), product(d[2], transposed(c.w[2])));
  check_near(c.self ? sum(dx, dm) : dx, j.at("grad_X"));
  if (!c.self) check_near(dm, j.at("grad_M"));
  if (projected) check_near(product(transposed(widen(out, C)), c.R), j.at("grad_W_o"));
}

json fixture(const std::string& name) {
  std::ifstream file(std::string(QUERN_SOURCE_DIR) + "/tests/fixtures/" + name);
  REQUIRE(file);
  return json::parse(file);
}

}  // namespace

TEST_CASE("attention equals PyTorch in float64: one head") {
  const std::string names[3] = {"Q", "K", "V"};
  const std::int32_t all_but_last = 3;
  int seen = 0;
  const json file = fixture("attention.json");
  for (const json& j : file.at("cases")) {
    const std::string name = j.at("name");
    INFO(name);
    Case c{1, 1, read(j.at("X")), read(j.at("X")), {}, {}, read(j.at("R")), {false, 0, nullptr}, true};
    for (int i = 0; i < 3; ++i) c.w[i] = read(j.at("W_" + names[i]));
    c.mask.causal = name.ends_with("_causal");
    if (name.ends_with("_last_key_padded")) c.mask.lengths = &all_but_last;
    CHECK(j.at("mask").is_null() == !(c.mask.causal || c.mask.lengths));
    check(c, j, names, "output");
    ++seen;
  }
  CHECK(seen == 4);
}

TEST_CASE("attention equals PyTorch in float64: heads, cross-attention, padding, windows, ALiBi, RoPE") {
  const std::string names[3] = {"q", "k", "v"};
  int seen = 0;
  const json file = fixture("attention_family.json");
  for (const json& j : file.at("cases")) {
    const std::string name = j.at("name");
    if (!j.contains("heads")) continue;  // scores and kinds of another kernel
    INFO(name);
    const bool self = !j.contains("M");
    Case c{static_cast<std::int64_t>(j.at("X").size()),
           j.at("heads"),
           read(j.at("X")),
           read(j.at(self ? "X" : "M")),
           {},
           read(j.at("W_o")),
           read(j.at("R")),
           {self, 0, nullptr},
           self};
    for (int i = 0; i < 3; ++i) c.w[i] = read(j.at("W_" + names[i]));
    c.key_heads = j.value("kv_heads", c.H);
    c.rope = name.starts_with("rope");
    c.mask.window = j.value("window", std::int64_t{0});
    if (j.contains("slopes")) c.slopes = alibi_slopes(c.H);
    std::vector<std::int32_t> lengths;
    if (j.contains("key_lengths")) lengths = j.at("key_lengths").get<std::vector<std::int32_t>>();
    if (!lengths.empty()) c.mask.lengths = lengths.data();
    check(c, j, names, "O");
    ++seen;
  }
  CHECK(seen == 6);
  for (const auto& [heads, slopes] : file.at("alibi_slopes").items()) {
    CAPTURE(heads);
    CHECK(relative_error(alibi_slopes(std::stoll(heads)), slopes.get<std::vector<double>>()) < 1e-7);
  }
}
