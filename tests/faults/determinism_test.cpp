// D1 to D4: what stays the same when a run is made again, resumed, given other threads or another instruction
// set.
#include <cmath>

#include "cli/runs.hpp"
#include "quern/base/cpu.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> hundred = {"run.max_steps=100", "schedule.decay_steps=100",
                                          "run.checkpoint_interval=50", "run.eval_interval=50"};

/// The largest |a - b| / |b| over the losses of all steps.
double largest_difference(const fs::path& a, const fs::path& b) {
  const auto of = quern::read_run(a.string()).steps, against = quern::read_run(b.string()).steps;
  REQUIRE(of.size() == 100);
  REQUIRE(against.size() == 100);
  double largest = 0;
  for (std::size_t i = 0; i < of.size(); ++i)
    largest = std::max(largest, std::abs(of[i].loss - against[i].loss) / std::abs(against[i].loss));
  return largest;
}

const Start usual = {.environment = {"QUERN_THREADS=2"}};

/// A run of 100 steps in other surroundings, and one that was begun in the usual ones and goes on in those.
struct Pair {
  fs::path all, resumed;
};

Pair run_in(const Start& start, const std::string& name, const TemporaryDirectory& directory) {
  const Pair paths = {directory / (name + " all"), directory / (name + " resumed")};
  REQUIRE(run(resume_words(paths.all, hundred), directory, start).code == 0);
  std::vector<std::string> half = hundred;
  half.emplace_back("run.max_steps=50");
  REQUIRE(run(resume_words(paths.resumed, half), directory, usual).code == 0);
  const Outcome o = run(resume_words(paths.resumed, hundred), directory, start);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(has(o.err, "this run was trained on 2 threads, "));
  return paths;
}

}  // namespace

TEST_CASE("D1: the same program, processor and threads give the same bits") {
  const TemporaryDirectory directory;
  for (const char* name : {"one", "two"})
    REQUIRE(run(resume_words(directory / name, hundred), directory, usual).code == 0);
  check_same_run(directory / "one", directory / "two");
}

TEST_CASE("D3 for many more threads than there are sequences and heads") {
  const TemporaryDirectory directory;
  for (const std::string kind : {"full", "linear"}) {
    std::vector<std::string> settings = hundred;
    settings.insert(settings.end(),
                    {"run.batch_size=1", "model.context_length=256", "model.attention=" + kind});
    const fs::path one = directory / (kind + " one"), many = directory / (kind + " many");
    REQUIRE(run(resume_words(one, settings), directory, {.environment = {"QUERN_THREADS=1"}}).code == 0);
    REQUIRE(run(resume_words(many, settings), directory, {.environment = {"QUERN_THREADS=16"}}).code == 0);
    CHECK(largest_difference(one, many) <= 1e-4);
  }
}

TEST_CASE("D3: other threads, from the start or from a resume on: each loss of 100 steps within 1e-4") {
  const TemporaryDirectory directory;
  REQUIRE(run(resume_words(directory / "two", hundred), directory, usual).code == 0);
  const Pair one = run_in({.environment = {"QUERN_THREADS=1"}}, "one", directory);
  CHECK(largest_difference(one.all, directory / "two") <= 1e-4);
  CHECK(largest_difference(one.resumed, directory / "two") <= 1e-4);
}

TEST_CASE(
    "D4: another instruction set, from the start or from a resume on: each loss of 100 steps within 1e-3") {
  const TemporaryDirectory directory;
  REQUIRE(run(resume_words(directory / "own", hundred), directory, usual).code == 0);
  for (const quern::Isa level : {quern::Isa::portable, quern::Isa::v2, quern::Isa::v3}) {
    if (level >= quern::detected_isa()) break;
    const std::string name(quern::name(level));
    CAPTURE(name);
    const Pair other = run_in({.environment = {"QUERN_THREADS=2", "QUERN_ISA=" + name}}, name, directory);
    CHECK(largest_difference(other.all, directory / "own") <= 1e-3);
    CHECK(largest_difference(other.resumed, directory / "own") <= 1e-3);
  }
}
