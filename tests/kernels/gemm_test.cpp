#include "quern/kernels/gemm.hpp"

#include "reference/check.hpp"

using namespace quern;
using namespace quern::reference;

namespace {

using Product = void (*)(Mat, Mat, Mat, const GemmOptions&);

/// rows x cols numbers, stored plainly or transposed, with `gap` floats behind each stored row.
struct Operand {
  std::vector<float> numbers;
  Mat mat;

  Operand(std::int64_t rows, std::int64_t cols, bool transposed, std::int64_t gap, std::uint64_t seed)
      : numbers(normal((transposed ? cols : rows) * ((transposed ? rows : cols) + gap), seed)) {
    const std::int64_t stored_rows = transposed ? cols : rows, stored_cols = transposed ? rows : cols;
    mat = {numbers.data(), Type::f32, stored_rows, stored_cols, stored_cols + gap, 1};
    if (transposed) mat = mat.t();
  }
  double at(std::int64_t i, std::int64_t j) const {
    return static_cast<const float*>(mat.data)[i * mat.row_stride + j * mat.col_stride];
  }
};

/// The largest error of a product against doubles, relative to sum |a||b|: what a sum of K products in f32
/// may be off by is about K/2 roundings of 2^-24 at most, in practice a few.
double product_error(Product product, std::int64_t M, std::int64_t N, std::int64_t K, bool ta, bool tb,
                     std::int64_t gap, float beta, bool bias) {
  const Operand a(M, K, ta, gap, 1), b(K, N, tb, gap, 2);
  std::vector<float> c = beta == 0 ? poison(M * (N + gap)) : normal(M * (N + gap), 3);
  const std::vector<float> before = c, offset = normal(N, 4);
  product({c.data(), Type::f32, M, N, N + gap, 1}, a.mat, b.mat, {beta, bias ? offset.data() : nullptr});
  double worst = 0;
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      const auto at = static_cast<std::size_t>(i * (N + gap) + j);
      double sum = beta == 0 ? 0 : double{beta} * before[at], scale = std::abs(sum) + 1;
      if (bias) sum += offset[static_cast<std::size_t>(j)];
      for (std::int64_t k = 0; k < K; ++k) {
        sum += a.at(i, k) * b.at(k, j);
        scale += std::abs(a.at(i, k) * b.at(k, j));
      }
      const double error = std::abs(c[at] - sum) / scale;
      worst = error < 1e30 ? std::max(worst, error) : 1e30;
    }
  return worst;
}

}  // namespace

TEST_CASE("gemm and its reference agree with doubles for every layout, beta, bias and width") {
  const struct {
    std::int64_t M, N, K;
  } sizes[] = {{1, 1, 1}, {1, 17, 64}, {17, 1, 5}, {64, 65, 17}, {33, 513, 64}, {5, 64, 513}};
  for (const Product product : {Product{gemm}, Product{gemm_reference}})
    for (const auto& s : sizes)
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (const float beta : {0.0F, 1.0F})
            for (const bool bias : {false, true}) {
              CAPTURE(s.M, s.N, s.K, ta, tb, beta, bias);
              // 2^-24 for each of a few dozen roundings in a row of partial sums.
              CHECK(product_error(product, s.M, s.N, s.K, ta, tb, 0, beta, bias) < 2e-6);
              CHECK(product_error(product, s.M, s.N, s.K, ta, tb, 3, beta, bias) < 2e-6);
            }
}

TEST_CASE("a transposed result is the product of the transposes") {
  const Operand a(7, 9, false, 0, 1), b(9, 5, false, 0, 2);
  std::vector<float> c = poison(35), d = poison(35);
  gemm({c.data(), Type::f32, 7, 5, 5, 1}, a.mat, b.mat);
  gemm(Mat{d.data(), Type::f32, 5, 7, 7, 1}.t(), a.mat, b.mat);
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 5; ++j) CHECK(c[i * 5 + j] == Approx(d[j * 7 + i]).epsilon(1e-6));
}

TEST_CASE("more shapes than the cache holds still give the right product") {
  std::vector<float> x = normal(700, 1), y(1);
  for (int round = 0; round < 2; ++round)
    for (std::int64_t k = 1; k <= 600; ++k) {
      gemm({y.data(), Type::f32, 1, 1, 1, 1}, {x.data(), Type::f32, 1, k, k, 1},
           {x.data(), Type::f32, k, 1, 1, 1});
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += double{x[static_cast<std::size_t>(i)]} * x[static_cast<std::size_t>(i)];
      REQUIRE(y[0] == Approx(sum).epsilon(1e-5));
    }
}

TEST_CASE("shapes that do not fit are a bug, with the shapes named") {
  std::vector<float> x(64);
  const Mat a{x.data(), Type::f32, 4, 4, 4, 1}, b{x.data(), Type::f32, 5, 4, 4, 1};
  CHECK_THROWS_AS(gemm(a, a, b), Bug);
  CHECK_THROWS_AS(gemm_reference(a, a, b), Bug);
}
