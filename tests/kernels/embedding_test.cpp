#include "reference/embedding.hpp"

#include "quern/kernels/embedding.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

constexpr std::int64_t B = 2, T = 3, V = 5, P = 6, first = 2;
constexpr float scale = 1.5F;
const std::vector<std::int32_t> ids = {4, 0, 4, 2, 4, 0};  // repeated, and 1 and 3 never
const std::vector<std::int32_t> starts = {0, 1, 1, 0, 0, 2};

Dropout some_dropout() { return Dropout({9, site_hash("embedding"), 2}, 0.2, 11); }

}  // namespace

TEST_CASE("embedding against the reference", "[embedding]") {
  for (const std::int64_t C : {1, 17, 64, 513}) {
    auto table = normal(V * C, 1), positions = normal(P * C, 2), out = poison(B * T * C);
    for (const Dropout& dropout : {Dropout(), some_dropout()})
      for (const bool packed : {false, true}) {
        embedding_forward({out.data(), {B, T, C}}, ids.data(), {table.data(), {V, C}}, scale,
                          {positions.data(), {P, C}}, first, dropout, packed ? starts.data() : nullptr);
        const auto wanted =
            reference::embedding(ids, T, widen(table), std::size_t(C), scale, widen(positions), first,
                                 dropout, packed ? starts : std::vector<std::int32_t>());
        CHECK(relative_error(out, wanted) < 2e-7);  // three roundings
      }
    embedding_forward({out.data(), {B, T, C}}, ids.data(), {table.data(), {V, C}}, 1, {}, 0, {});
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(out[i] == table[std::size_t(ids[i / std::size_t(C)] * C) + i % std::size_t(C)]);
  }
}

TEST_CASE("embedding backward against dual numbers", "[embedding]") {
  for (const std::int64_t C : {1, 17, 64, 130}) {
    const auto table = normal(V * C, 1), positions = normal(P * C, 2);
    auto dout = normal(B * T * C, 3);
    const Dropout dropout = some_dropout();
    const auto wanted_table = gradient(table, [&](const std::vector<Dual>& t) {
      return weighted(dout, reference::embedding(ids, T, t, std::size_t(C), scale, constants(positions),
                                                 first, dropout, starts));
    });
    const auto wanted_positions = gradient(positions, [&](const std::vector<Dual>& p) {
      return weighted(dout, reference::embedding(ids, T, constants(table), std::size_t(C), scale, p, first,
                                                 dropout, starts));
    });
    for (const float beta : {0.0F, 1.0F, 0.5F}) {
      auto dtable = beta == 0 ? poison(V * C) : normal(V * C, 4);
      auto dpositions = beta == 0 ? poison(P * C) : normal(P * C, 5);
      const auto table_before = dtable, positions_before = dpositions;
      embedding_backward({{dtable.data(), {V, C}}, beta}, {{dpositions.data(), {P, C}}, beta},
                         {dout.data(), {B, T, C}}, ids.data(), scale, first, dropout, starts.data());
      const auto total = [&](const std::vector<double>& g, const std::vector<float>& before) {
        auto sum = g;
        for (std::size_t i = 0; beta != 0 && i < sum.size(); ++i) sum[i] += double(beta) * double(before[i]);
        return sum;
      };
      // Sums of at most four numbers of three roundings each.
      CHECK(relative_error(dtable, total(wanted_table, table_before)) < 5e-7);
      CHECK(relative_error(dpositions, total(wanted_positions, positions_before)) < 5e-7);
    }
    auto alone = poison(P * C);
    embedding_backward({}, {{alone.data(), {P, C}}, 0}, {dout.data(), {B, T, C}}, ids.data(), scale, first,
                       dropout, starts.data());
    CHECK(relative_error(alone, wanted_positions) < 5e-7);
  }
}

TEST_CASE("embedding refuses what lies outside of its tables", "[embedding]") {
  std::vector<float> table(10), out(6);
  const std::int32_t bad[] = {0, 1, 5};
  CHECK_THROWS_AS(embedding_forward({out.data(), {1, 3, 2}}, bad, {table.data(), {5, 2}}, 1, {}, 0, {}), Bug);
  const std::int32_t good[] = {0, 1, 4};
  CHECK_THROWS_AS(embedding_forward({out.data(), {1, 3, 2}}, good, {table.data(), {5, 2}}, 1,
                                    {table.data(), {4, 2}}, 2, {}),
                  Bug);
}

TEST_CASE("embeddings of several slices, on any number of threads", "[embedding]") {
  const std::int64_t rows = 400, C = 200, vocabulary = 7;
  std::vector<std::int32_t> many(rows);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::int32_t(i * i % 7);
  auto dout = normal(rows * C, 1), table = normal(vocabulary * C, 2);
  const Dropout dropout = some_dropout();
  CHECK(same_on_any_threads([&] {
    auto out = poison(rows * C);
    embedding_forward({out.data(), {4, 100, C}}, many.data(), {table.data(), {vocabulary, C}}, 2, {}, 0,
                      dropout);
    return out;
  }));
  const auto backward = [&] {
    auto dtable = poison(vocabulary * C);
    embedding_backward({{dtable.data(), {vocabulary, C}}, 0}, {}, {dout.data(), {4, 100, C}}, many.data(), 2,
                       0, dropout);
    return dtable;
  };
  CHECK(same_on_any_threads(backward));
  std::vector<double> wanted(table.size());
  for (std::size_t i = 0; i < dout.size(); ++i) {
    const std::size_t r = i / std::size_t(C), c = i % std::size_t(C);
    wanted[std::size_t(many[r] * C) + c] +=
        2 * double(dropout.factor(r, static_cast<std::uint32_t>(c))) * double(dout[i]);
  }
  CHECK(relative_error(backward(), wanted) < 2e-6);  // float sums of about a hundred numbers
}

TEST_CASE("sinusoidal positions", "[embedding]") {
  auto table = poison(1000 * 6);
  sinusoidal_positions({table.data(), {1000, 6}});
  for (std::size_t p = 0; p < 1000; p += 37) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double angle = double(p) / std::pow(10000.0, 2.0 * double(i) / 6);
      CHECK(double(table[p * 6 + i]) == Approx(std::sin(angle)).margin(1e-7));
      CHECK(double(table[p * 6 + 3 + i]) == Approx(std::cos(angle)).margin(1e-7));
    }
  }
  CHECK(table[0] == 0);
  CHECK(table[3] == 1);
  CHECK(double(table[6 + 1]) == Approx(std::sin(std::pow(10.0, -4.0 / 3))).epsilon(1e-6));
}
