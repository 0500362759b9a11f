#include "quern/train/sweep.hpp"

#include <cmath>
#include <set>

#include "catch.hpp"
#include "error_of.hpp"

using namespace quern;
using test::error_of;

namespace {

std::vector<std::string> names_of(const std::vector<SweepRun>& runs) {
  std::vector<std::string> names;
  for (const SweepRun& run : runs) names.push_back(run.name);
  return names;
}

}  // namespace

TEST_CASE("an axis is a field and its values, parted by commas outside of lists and strings") {
  const SweepAxis axis = sweep_axis("optim.learning_rate=1e-3,3e-4");
  CHECK(axis.path == "optim.learning_rate");
  CHECK(axis.values == std::vector<std::string>{"1e-3", "3e-4"});
  CHECK(sweep_axis("optim.betas=[0.9,0.95],[0.8,0.99]").values ==
        std::vector<std::string>{"[0.9,0.95]", "[0.8,0.99]"});
  CHECK(sweep_axis(R"(data.text="a,b.txt",["c","d"])").values ==
        std::vector<std::string>{R"("a,b.txt")", R"(["c","d"])"});
  for (const char* wrong : {"", "=1", "model.d_model", "model.d_model=", "a=1,,2", "a=1,", "a=1,1"}) {
    CAPTURE(wrong);
    CHECK(error_of([&] { sweep_axis(wrong); }).kind == ErrorKind::config);
  }
}

TEST_CASE("a sweep is every combination with every seed, each in a directory of its own") {
  const std::vector<SweepAxis> axes = {{"optim.learning_rate", {"1e-3", "3e-4"}},
                                       {"model.d_model", {"64", "128"}}};
  const auto runs = sweep_runs(axes, 2);
  CHECK(names_of(runs) == std::vector<std::string>{
                              "learning_rate=1e-3,d_model=64,seed=1", "learning_rate=1e-3,d_model=64,seed=2",
                              "learning_rate=1e-3,d_model=128,seed=1",
                              "learning_rate=1e-3,d_model=128,seed=2", "learning_rate=3e-4,d_model=64,seed=1",
                              "learning_rate=3e-4,d_model=64,seed=2", "learning_rate=3e-4,d_model=128,seed=1",
                              "learning_rate=3e-4,d_model=128,seed=2"});
  CHECK(runs[3].setting == "learning_rate=1e-3 d_model=128");
  CHECK(runs[3].sets ==
        std::vector<std::string>{"optim.learning_rate=1e-3", "model.d_model=128", "run.seed=2"});
  CHECK(names_of(sweep_runs({}, 0)) == std::vector<std::string>{"run"});
  CHECK(names_of(sweep_runs({}, 2)) == std::vector<std::string>{"seed=1", "seed=2"});
  CHECK(sweep_runs({}, 0)[0].sets.empty());
}

TEST_CASE("a sweep's names suit a file system and differ where the settings do") {
  const std::vector<SweepAxis> axes = {{"data.text", {"\"a/b\"", "\"a:b\"", "../x", std::string(300, 'y')}}};
  std::set<std::string> seen;
  for (const std::string& name : names_of(sweep_runs(axes, 0))) {
    CHECK(name.find('/') == std::string::npos);
    CHECK(name.size() < 200);
    CHECK(name.starts_with("text="));
    CHECK(seen.insert(name).second);
  }
  const auto alike = sweep_runs({{"model.norm", {"layernorm"}}, {"other.norm", {"x"}}}, 0);
  CHECK(alike[0].setting == "model.norm=layernorm other.norm=x");
}

TEST_CASE("a sweep that cannot be meant is refused") {
  const SweepAxis d{"model.d_model", {"64", "128"}};
  CHECK(error_of([&] { sweep_runs({d, d}, 0); }).kind == ErrorKind::config);
  CHECK(error_of([&] { sweep_runs({{"run.seed", {"1", "2"}}}, 3); }).kind == ErrorKind::config);
  CHECK(sweep_runs({{"run.seed", {"1", "2"}}}, 0).size() == 2);
  std::vector<SweepAxis> many;
  for (int i = 0; i < 14; ++i) many.push_back({"f" + std::to_string(i), {"1", "2"}});
  CHECK(error_of([&] { sweep_runs(many, 0); }).kind == ErrorKind::config);
}

TEST_CASE("results stand by their mean, those without a loss last") {
  std::vector<SweepResult> results = {{"a", {}, {}, 2}, {"b", {}, {3, 1}, 2}, {"c", {}, {1.5}, 2}};
  CHECK(std::isnan(results[0].mean()));
  CHECK(results[1].mean() == 2);
  sort_results(results);
  CHECK(results[0].setting == "c");
  CHECK(results[1].setting == "b");
  CHECK(results[2].setting == "a");
}
