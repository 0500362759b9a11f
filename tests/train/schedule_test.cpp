#include "quern/train/schedule.hpp"

#include <cmath>

#include "catch.hpp"

using namespace quern;

namespace {

double rate(ScheduleKind kind, std::int64_t step, std::int64_t warmup = 10, double power = 1) {
  OptimConfig optim;
  optim.learning_rate = 2;
  ScheduleConfig schedule;
  schedule.kind = kind;
  schedule.warmup_steps = warmup;
  schedule.decay_steps = 110;
  schedule.cooldown_steps = 20;
  schedule.min_learning_rate = 0.5;
  schedule.power = power;
  return learning_rate(step, optim, schedule);
}

}  // namespace

TEST_CASE("every schedule warms up linearly and reaches the peak at the last warmup step") {
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::linear,
                          ScheduleKind::polynomial, ScheduleKind::inverse_sqrt, ScheduleKind::wsd}) {
    CHECK(rate(kind, 1) == Approx(0.2));
    CHECK(rate(kind, 5) == Approx(1.0));
    CHECK(rate(kind, 10) == Approx(2.0));
  }
}

TEST_CASE("schedules at hand-computed steps") {
  CHECK(rate(ScheduleKind::constant, 1000) == 2);
  CHECK(rate(ScheduleKind::cosine, 60) == Approx(0.5 + 1.5 * 0.5));
  CHECK(rate(ScheduleKind::cosine, 35) == Approx(0.5 + 1.5 * (1 + std::sqrt(0.5)) / 2));
  CHECK(rate(ScheduleKind::linear, 35) == Approx(0.5 + 1.5 * 0.75));
  CHECK(rate(ScheduleKind::polynomial, 60, 10, 2) == Approx(0.5 + 1.5 * 0.25));
  CHECK(rate(ScheduleKind::wsd, 90) == 2);
  CHECK(rate(ScheduleKind::wsd, 95) == Approx(0.5 + 1.5 * 0.75));
  CHECK(rate(ScheduleKind::inverse_sqrt, 40) == Approx(1.0));
  CHECK(rate(ScheduleKind::inverse_sqrt, 4, 0) == Approx(1.0));
  for (const auto kind :
       {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::polynomial, ScheduleKind::wsd}) {
    CHECK(rate(kind, 110) == Approx(0.5));
    CHECK(rate(kind, 5000) == Approx(0.5));
  }
}

TEST_CASE("the 2017 paper's rate is inverse_sqrt with its peak") {
  // d_model^-0.5 * min(s^-0.5, s * w^-1.5)
  OptimConfig optim;
  optim.learning_rate = std::pow(512.0, -0.5) * std::pow(4000.0, -0.5);
  ScheduleConfig schedule;
  schedule.kind = ScheduleKind::inverse_sqrt;
  schedule.warmup_steps = 4000;
  for (const std::int64_t s : {1, 100, 4000, 4001, 100000}) {
    const auto x = static_cast<double>(s);
    const double paper = std::pow(512.0, -0.5) * std::min(std::pow(x, -0.5), x * std::pow(4000.0, -1.5));
    CHECK(learning_rate(s, optim, schedule) == Approx(paper).epsilon(1e-12));
  }
}
