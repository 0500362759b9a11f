// Two trainers on one directory: one trains, the other is told who does.
#include "cli/runs.hpp"
#include "faults/long_tests.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE("of two trainers that start at once one goes on, and the other is exit 7 and names it; 20 times") {
  for (int round = 0; round < times(20, 100); ++round) {
    const TemporaryDirectory directory, other;
    const fs::path path = directory / "run";
    const auto words = resume_words(path, {"run.max_steps=2", "run.eval_batches=1"});
    Program a(words, directory), b(words, other);
    // The one with the lock waits until the other has seen that: however busy the machine, they do meet.
    std::string holder;
    REQUIRE(wait_until(a, [&] { return (holder = get(path / "lock")).ends_with('\n'); }));
    const bool first = holder == std::to_string(a.pid()) + "\n";
    Program &winner = first ? a : b, &loser = first ? b : a;
    ::kill(winner.pid(), SIGSTOP);
    const Outcome lost = loser.wait();
    ::kill(winner.pid(), SIGCONT);
    const Outcome won = winner.wait();
    CAPTURE(round, holder, lost.err, won.err);
    CHECK(lost.code == 7);
    CHECK(lost.err == "error[run]: the run is in use by process " + std::to_string(winner.pid()) +
                          "\n  --> " + path.string() +
                          "\n  help: wait for it to end, or choose another --run-dir\n");
    CHECK(won.code == 0);
    CHECK(recorded(path).size() == 4);
  }
}
