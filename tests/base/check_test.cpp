#include "quern/base/check.hpp"

#include "catch.hpp"

using namespace quern;

TEST_CASE("a bug of ours names its expression, values and place") {
  const int rows = 3;
  try {
    QUERN_CHECK(rows == 4, rows, "apples");
    FAIL("did not throw");
  } catch (const Bug& bug) {
    const std::string text = bug.what();
    CHECK(text.find("rows == 4") != std::string::npos);
    CHECK(text.find("values: 3 apples") != std::string::npos);
    CHECK(text.find("check_test.cpp:") != std::string::npos);
  }
}

TEST_CASE("a user's error is printed with its kind, place and help") {
  CHECK(format(Error(ErrorKind::config, "optim.lerning_rate: unknown key", "did you mean \"learning_rate\"?",
                     "cfg.json:14:7")) ==
        "error[config]: optim.lerning_rate: unknown key\n"
        "  --> cfg.json:14:7\n"
        "  help: did you mean \"learning_rate\"?\n");
  CHECK(format(Error(ErrorKind::io, "disk full")) == "error[io]: disk full\n");
  CHECK(one_line(Error(ErrorKind::file, "no such file", "look again", "a.txt")) == "no such file (a.txt)");
  CHECK(one_line(Error(ErrorKind::io, "disk full")) == "disk full");
}
