// quern doctor, and the checks that it makes.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "cli/program.hpp"

using namespace quern::test;

TEST_CASE("doctor finds this machine in order and says so as JSON") {
  const TemporaryDirectory directory;
  const Outcome o = run({"doctor", "--json"}, directory);
  CAPTURE(o.out, o.err);
  REQUIRE(o.code == 0);
  const auto found = nlohmann::json::parse(o.out);
  CHECK(found.at("passed") == true);
  CHECK(found.at("program").at("OpenMP").size() == 1);  // one runtime
  CHECK(found.at("machine").at("memory").at("available") > 0);
  REQUIRE(found.at("numbers").size() == 4);
  for (const auto& check : found.at("numbers")) CHECK(check.at("passed") == true);
  CHECK(found.at("speed").at("product") > 0);
}

TEST_CASE("doctor --help names its examples, and a bad QUERN_ISA is an error of the configuration") {
  const TemporaryDirectory directory;
  CHECK(run({"doctor", "--help"}, directory).out.find("quern doctor --json") != std::string::npos);
  Start start;
  start.environment = {"QUERN_ISA=v9"};
  for (const std::vector<std::string>& words : {std::vector<std::string>{"doctor"},
                                                {"bench", "A"},
                                                {"bench", "--kernels"},
                                                {"sample", "--prompt", "a"}}) {
    const Outcome o = run(words, directory, start);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK(o.err.find("QUERN_ISA: unknown level \"v9\"") != std::string::npos);
  }
}
