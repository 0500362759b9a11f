#include "quern/watch/format.hpp"

#include <limits>

#include "catch.hpp"

using namespace quern;

static const double nan_ = std::numeric_limits<double>::quiet_NaN();
static const double inf = std::numeric_limits<double>::infinity();

TEST_CASE("grouped puts a comma before every third digit") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1003854) == "1,003,854");
  CHECK(grouped(-12345) == "-12,345");
  CHECK(grouped(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("binary_size keeps three digits") {
  CHECK(binary_size(0) == "0 B");
  CHECK(binary_size(999) == "999 B");
  CHECK(binary_size(1000) == "1.0 KiB");
  CHECK(binary_size(58406707) == "55.7 MiB");
  CHECK(binary_size(std::int64_t{200} << 20) == "200 MiB");
  CHECK(binary_size((std::int64_t{1} << 40) - 1) == "1.0 TiB");
}

TEST_CASE("compact keeps three digits") {
  CHECK(compact(0) == "0");
  CHECK(compact(12) == "12");
  CHECK(compact(0.81) == "0.81");
  CHECK(compact(999.4) == "999");
  CHECK(compact(999.6) == "1k");
  CHECK(compact(41234) == "41.2k");
  CHECK(compact(10.7e6) == "10.7M");
  CHECK(compact(nan_) == "nan");
}

TEST_CASE("durations") {
  CHECK(duration(0.05) == "0.05 s");
  CHECK(duration(12.34) == "12.3 s");
  CHECK(duration(59.94) == "59.9 s");
  CHECK(duration(59.96) == "1:00");
  CHECK(duration(125) == "2:05");
  CHECK(clock_time(5.4) == "0:05");
  CHECK(clock_time(1930) == "32:10");
  CHECK(clock_time(3730) == "1:02:10");
  CHECK(clock_time(86400 * 3 + 3600 * 4) == "3d 04h");
  for (const double bad : {-1.0, nan_, inf, 1e300}) CHECK(clock_time(bad) == "?");
}

TEST_CASE("scientific uses an exponent only where it is shorter") {
  CHECK(scientific(0.00057, 2) == "5.7e-4");
  CHECK(scientific(0.001, 2) == "1e-3");
  CHECK(scientific(0.05, 2) == "0.05");
  CHECK(scientific(0.4816, 3) == "0.482");
  CHECK(scientific(12.5, 2) == "12");
  CHECK(scientific(123456, 2) == "1.2e5");
  CHECK(scientific(0, 2) == "0");
  CHECK(scientific(-2.5e-7, 2) == "-2.5e-7");
  CHECK(scientific(inf, 2) == "inf");
}

TEST_CASE("fixed") {
  CHECK(fixed(1.8734, 3) == "1.873");
  CHECK(fixed(2, 0) == "2");
  CHECK(fixed(nan_, 3) == "nan");
  CHECK(fixed(-inf, 3) == "-inf");
  CHECK(fixed(1e300, 2).size() == 304);
}
