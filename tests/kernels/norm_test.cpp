#include "reference/norm.hpp"

#include "quern/kernels/norm.hpp"
#include "reference/check.hpp"
#include "reference/oracle.hpp"

using namespace quern;
using namespace quern::reference;

// Tolerances. A row's sums run over at most 700 numbers in 4 or more partial sums, and a handful of
// operations follow; half an ulp is 6e-8, so 16 of them, 1e-6, cover the forward, and the two means that
// cancel in the backward cost the factor of 5 more.
constexpr double forward_tolerance = 1e-6, backward_tolerance = 5e-6;

namespace {

constexpr float eps = 1e-5F;

Dropout some_dropout() { return Dropout({7, site_hash("norm"), 3}, 0.25, 0x1'0000'0005ULL); }

struct Case {
  std::int64_t rows, cols;
  std::vector<float> stream, branch, gain, bias, dx, dh, x, h, mean, rstd;
  Dropout dropout;
  NormKind kind = NormKind::layernorm;

  Case(std::int64_t r, std::int64_t c, const Dropout& d = {})
      : rows(r),
        cols(c),
        stream(normal(r * c, 1)),
        branch(normal(r * c, 2)),
        gain(normal(c, 3)),
        bias(normal(c, 4)),
        dx(normal(r * c, 5)),
        dh(normal(r * c, 6)),
        x(poison(r * c)),
        h(poison(r * c)),
        mean(poison(r)),
        rstd(poison(r)),
        dropout(d) {}

  Case& rms() {
    kind = NormKind::rmsnorm;
    bias.clear();
    return *this;
  }

  float* means() { return kind == NormKind::layernorm ? mean.data() : nullptr; }
  Tensor view(std::vector<float>& v) const { return v.empty() ? Tensor() : Tensor(v.data(), {rows, cols}); }
  Tensor row(std::vector<float>& v) const { return v.empty() ? Tensor() : Tensor(v.data(), {cols}); }

  void forward() {
    residual_norm_forward(view(x), view(h), means(), rstd.data(), view(stream), view(branch), gain.data(),
                          bias.empty() ? nullptr : bias.data(), eps, dropout, kind);
  }
  ResidualNorm<double> wanted() const {
    return residual_norm(widen(stream), widen(branch), widen(gain), widen(bias), eps, dropout, kind);
  }

  /// stream, branch, gain and bias one after the other; the sum of dx * x + dh * h as their function.
  std::vector<float> inputs() const {
    std::vector<float> all = stream;
    for (const auto* part : {&branch, &gain, &bias}) all.insert(all.end(), part->begin(), part->end());
    return all;
  }
  Dual loss(const std::vector<Dual>& all) const {
    auto at = all.begin();
    const auto take = [&](std::size_t n) { return std::vector<Dual>(at, at + std::ptrdiff_t(n)); };
    const auto s = take(stream.size());
    at += std::ptrdiff_t(s.size());
    const auto b = take(branch.size());
    at += std::ptrdiff_t(b.size());
    const auto g = take(gain.size());
    at += std::ptrdiff_t(g.size());
    const auto out = residual_norm(s, b, g, std::vector<Dual>(at, all.end()), eps, dropout, kind);
    Dual total = 0;
    if (!dx.empty()) total += weighted(dx, out.x);
    if (!dh.empty()) total += weighted(dh, out.h);
    return total;
  }
};

struct Gradients {
  std::vector<float> dstream, dbranch, dgain, dbias;
};

Gradients backward(Case& c, float beta, bool poisoned) {
  const std::int64_t n = c.rows * c.cols;
  Gradients g = {normal(n, 11), normal(n, 12), normal(c.cols, 13), normal(c.cols, 14)};
  if (poisoned) g = {poison(n), poison(n), poison(c.cols), poison(c.cols)};
  if (c.branch.empty()) g.dbranch.clear();
  if (c.bias.empty()) g.dbias.clear();
  std::vector<float> scratch = poison(std::int64_t(residual_norm_backward_scratch(c.rows, c.cols)));
  residual_norm_backward({c.view(g.dstream), beta}, {c.view(g.dbranch), beta}, {c.row(g.dgain), beta},
                         {c.row(g.dbias), beta}, c.view(c.dx), c.view(c.dh),
                         c.view(c.branch.empty() ? c.stream : c.x), c.means(), c.rstd.data(), c.gain.data(),
                         c.dropout, scratch, c.kind);
  return g;
}

void check_backward(Case& c) {
  c.forward();
  const auto all = gradient(c.inputs(), [&](const std::vector<Dual>& in) { return c.loss(in); });
  for (const float beta : {0.0F, 1.0F}) {
    const Gradients g = backward(c, beta, beta == 0);
    const std::vector<float> start[] = {normal(c.rows * c.cols, 11), normal(c.rows * c.cols, 12),
                                        normal(c.cols, 13), normal(c.cols, 14)};
    const std::vector<float>* got[] = {&g.dstream, &g.dbranch, &g.dgain, &g.dbias};
    auto at = all.begin();
    for (int i = 0; i < 4; ++i) {
      std::vector<double> wanted(at, at + std::ptrdiff_t(got[i]->size()));
      at += std::ptrdiff_t(wanted.size());
      for (std::size_t k = 0; k < wanted.size(); ++k) wanted[k] += double(beta) * double(start[i][k]);
      CAPTURE(i, beta, c.rows, c.cols);
      CHECK(relative_error(*got[i], wanted, 1) < backward_tolerance);
    }
    CHECK(at == all.end());
  }
}

}  // namespace

TEST_CASE("residual, dropout and norm against the reference", "[norm]") {
  for (const std::int64_t cols : {1, 17, 64, 513, 700}) {
    for (const Dropout& dropout : {Dropout(), some_dropout()}) {
      Case c(5, cols, dropout);
      c.forward();
      const auto wanted = c.wanted();
      CAPTURE(cols);
      CHECK(relative_error(c.x, wanted.x) < forward_tolerance);
      CHECK(relative_error(c.h, wanted.h) < forward_tolerance);
      CHECK(relative_error(c.mean, wanted.mean, 1) < forward_tolerance);
      CHECK(relative_error(c.rstd, wanted.rstd) < forward_tolerance);

      Case rms(5, cols, dropout);
      rms.rms().forward();
      const auto wanted_rms = rms.wanted();
      CHECK(relative_error(rms.x, wanted_rms.x) < forward_tolerance);
      CHECK(relative_error(rms.h, wanted_rms.h) < forward_tolerance);
      CHECK(relative_error(rms.rstd, wanted_rms.rstd) < forward_tolerance);
      for (const float mean : rms.mean) CHECK(std::isnan(mean));  // not touched
    }
  }
}

TEST_CASE("norm without a branch, without a bias, of a constant row", "[norm]") {
  Case c(3, 33);
  c.branch.clear();
  c.bias.clear();
  c.x.clear();
  c.forward();
  CHECK(relative_error(c.h, c.wanted().h) < forward_tolerance);

  std::fill(c.stream.begin(), c.stream.end(), 3.0F);
  c.forward();
  for (const float h : c.h) CHECK(h == 0);
  CHECK(c.rstd[0] == Approx(1 / std::sqrt(1e-5)).epsilon(1e-6));
}

TEST_CASE("norm of a row far from zero", "[norm]") {
  // x = 1000 + normal: x - mean is off by the rounding of the mean, half an ulp of 1000 is 3e-5.
  Case c(3, 257);
  for (float& s : c.stream) s += 1000;
  c.forward();
  CHECK(relative_error(c.h, c.wanted().h) < 4e-5);
}

TEST_CASE("x may be the stream and h the branch", "[norm]") {
  Case c(4, 75, some_dropout()), in_place = c;
  c.forward();
  residual_norm_forward(in_place.view(in_place.stream), in_place.view(in_place.branch), in_place.mean.data(),
                        in_place.rstd.data(), in_place.view(in_place.stream), in_place.view(in_place.branch),
                        c.gain.data(), c.bias.data(), eps, c.dropout);
  CHECK(in_place.stream == c.x);
  CHECK(in_place.branch == c.h);
}

TEST_CASE("norm reads a branch whose rows lie apart", "[norm]") {
  Case c(4, 20, some_dropout());
  c.forward();
  const auto x = c.x, h = c.h;
  auto wide = poison(4 * 50);
  for (std::size_t r = 0; r < 4; ++r) std::copy_n(&c.branch[r * 20], 20, &wide[r * 50 + 10]);
  residual_norm_forward(c.view(c.x), c.view(c.h), c.mean.data(), c.rstd.data(), c.view(c.stream),
                        Tensor(wide.data(), {4, 50}).columns(10, 20), c.gain.data(), c.bias.data(), eps,
                        c.dropout);
  CHECK(c.x == x);
  CHECK(c.h == h);
}

TEST_CASE("norm backward against dual numbers", "[norm]") {
  for (const std::int64_t cols : {1, 17, 64, 513}) {
    Case plain(2, cols), dropped(2, cols, some_dropout());
    check_backward(plain);
    check_backward(dropped);
    check_backward(plain.rms());
    check_backward(dropped.rms());
  }
}

TEST_CASE("norm backward with parts missing", "[norm]") {
  SECTION("no gradient from elsewhere") {
    Case c(3, 17, some_dropout());
    c.dx.clear();
    check_backward(c);
  }
  SECTION("no gradient of h: dgain and dbias are zero") {
    Case c(3, 17, some_dropout());
    c.dh.clear();
    check_backward(c);
  }
  SECTION("no branch, no bias") {
    Case c(3, 17);
    c.branch.clear();
    c.bias.clear();
    check_backward(c);
  }
  SECTION("RMSNorm without a branch, without a gradient from elsewhere") {
    Case c(3, 17);
    c.branch.clear();
    c.dx.clear();
    check_backward(c.rms());
  }
  SECTION("nothing but the branch is wanted") {
    Case c(3, 17, some_dropout());
    c.forward();
    auto dbranch = poison(3 * 17);
    residual_norm_backward({}, {c.view(dbranch), 0}, {}, {}, c.view(c.dx), c.view(c.dh), c.view(c.x),
                           c.mean.data(), c.rstd.data(), c.gain.data(), c.dropout, {});
    CHECK(dbranch == backward(c, 0, true).dbranch);
  }
}

TEST_CASE("norm backward in place", "[norm]") {
  Case c(6, 100, some_dropout());
  c.forward();
  const Gradients wanted = backward(c, 0, true);
  residual_norm_backward({c.view(c.dx), 0}, {c.view(c.dh), 0}, {}, {}, c.view(c.dx), c.view(c.dh),
                         c.view(c.x), c.mean.data(), c.rstd.data(), c.gain.data(), c.dropout, {});
  CHECK(c.dx == wanted.dstream);
  CHECK(c.dh == wanted.dbranch);
}

TEST_CASE("dropout keeps the rate's share and drops all at rate 1", "[norm]") {
  std::vector<float> ones(100 * 512, 1.0F), x = poison(100 * 512);
  const Tensor in(ones.data(), {100, 512}), out(x.data(), {100, 512});
  drop({out, 0}, in, Dropout({1, 2, 3}, 0.25, 0));
  const auto kept = std::count(x.begin(), x.end(), static_cast<float>(1 / 0.75));
  CHECK(kept + std::count(x.begin(), x.end(), 0.0F) == 51'200);
  CHECK(std::abs(double(kept) - 38'400) < 500);  // the deviation is 98
  drop({out, 0}, in, Dropout({1, 2, 3}, 1, 0));
  CHECK(std::count(x.begin(), x.end(), 0.0F) == 51'200);
}

TEST_CASE("norms have the same bits on any number of threads", "[norm]") {
  Case c(1500, 65, some_dropout());
  CHECK(same_on_any_threads([&] {
    c.forward();
    return c.h;
  }));
  CHECK(same_on_any_threads([&] { return backward(c, 0, true).dgain; }));
  CHECK(same_on_any_threads([&] { return backward(c, 1, false).dbranch; }));
  c.rms();
  CHECK(same_on_any_threads([&] {
    c.forward();
    return c.h;
  }));
  CHECK(same_on_any_threads([&] { return backward(c, 0, true).dgain; }));
}

TEST_CASE("dgain over many rows", "[norm]") {
  // 3000 numbers in chunks: the rounding of float sums of 47 each, then of 64 chunks.
  Case c(3000, 20);
  c.forward();
  const auto out = c.wanted();
  std::vector<double> dgain(20), dbias(20);
  for (std::size_t i = 0; i < out.x.size(); ++i) {
    dgain[i % 20] += double(c.dh[i]) * (out.x[i] - out.mean[i / 20]) * out.rstd[i / 20];
    dbias[i % 20] += double(c.dh[i]);
  }
  const Gradients g = backward(c, 0, true);
  CHECK(relative_error(g.dgain, dgain) < 1e-5);
  CHECK(relative_error(g.dbias, dbias) < 1e-5);
}
