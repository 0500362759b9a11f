#include "quern/data/scores.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;

TEST_CASE("accuracy and macro-F1 of a table counted by hand", "[data]") {
  // truth 0 0 0 1 1 2, prediction 0 0 1 1 2 1:
  //   class 0: TP 2, FP 0, FN 1: F1 = 4/5; class 1: TP 1, FP 2, FN 1: F1 = 2/5; class 2: TP 0: F1 = 0
  Scores scores;
  for (const auto& [truth, prediction] :
       std::vector<std::pair<int, int>>{{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 1}})
    scores.add_class(truth, prediction);
  CHECK(scores.count() == 6);
  CHECK(scores.exact() == 3);
  CHECK(scores.accuracy() == 0.5);
  CHECK(scores.macro_f1() == Approx((0.8 + 0.4 + 0) / 3).epsilon(1e-15));
}

TEST_CASE("macro-F1 averages over the classes that occur as truth or prediction", "[data]") {
  Scores one;
  for (int i = 0; i < 5; ++i) one.add_class(7, 7);  // 0 … 6 never occur
  CHECK(one.macro_f1() == 1);
  one.add_class(7, 9);  // class 7: 10/11; class 9, predicted only: 0
  CHECK(one.macro_f1() == Approx(10.0 / 11 / 2).epsilon(1e-15));

  Scores rare;  // 99 of 100 right and one class never found
  for (int i = 0; i < 99; ++i) rare.add_class(0, 0);
  rare.add_class(1, 0);
  CHECK(rare.accuracy() == 0.99);
  CHECK(rare.macro_f1() == Approx(198.0 / 199 / 2).epsilon(1e-15));
}

TEST_CASE("mean squared error and R^2 of values", "[data]") {
  // truth 1 2 3 6 (mean 3, spread 4 + 1 + 0 + 9 = 14), errors 0 1 -1 2: 6
  Scores scores;
  scores.add_value(1, 1);
  scores.add_value(2, 3);
  scores.add_value(3, 2);
  scores.add_value(6, 8);
  CHECK(scores.mean_squared_error() == 1.5);
  CHECK(scores.r_squared().value() == Approx(1 - 6.0 / 14).epsilon(1e-14));

  Scores mean;
  for (const double truth : {1.0, 2.0, 3.0, 6.0}) mean.add_value(truth, 3);
  CHECK(mean.r_squared().value() == Approx(0).margin(1e-14));

  // 1e8 + {0, 1, 2}: the spread is 2, where sum x^2 - n mean^2 keeps no digit of it.
  Scores far;
  for (const double truth : {1e8, 1e8 + 1, 1e8 + 2}) far.add_value(truth, truth + 1);
  CHECK(far.r_squared().value() == Approx(1 - 3.0 / 2).epsilon(1e-12));

  Scores constant;
  constant.add_value(4, 5);
  constant.add_value(4, 4);
  CHECK(!constant.r_squared().has_value());
  CHECK(constant.mean_squared_error() == 0.5);
}

TEST_CASE("whole answers are counted; a metric of nothing is a bug", "[data]") {
  Scores scores;
  CHECK(scores.count() == 0);
  CHECK_THROWS_AS(scores.accuracy(), Bug);
  CHECK_THROWS_AS(scores.macro_f1(), Bug);
  CHECK_THROWS_AS(scores.mean_squared_error(), Bug);
  CHECK_THROWS_AS(scores.r_squared(), Bug);
  CHECK_THROWS_AS(scores.add_class(-1, 0), Bug);
  scores.add_answer(true);
  scores.add_answer(false);
  scores.add_answer(true);
  CHECK(scores.exact() == 2);
  CHECK(scores.accuracy() == 2.0 / 3);
}
