// As many files may be open as may be: too few is an error that says so, and leaves what is there intact.
#include "cli/runs.hpp"

// UndefinedBehaviorSanitizer needs descriptors of its own to look at an object.
#if !defined(__SANITIZE_ADDRESS__)

using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE("too few descriptors are exit 4 with the file that was one too many; with enough the run goes on") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  const std::vector<std::string> settings = {"run.max_steps=6", "run.checkpoint_interval=2",
                                             "run.eval_batches=1"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  int refused = 0, completed = 0;
  for (rlim_t limit = 4; limit <= 16; ++limit) {  // the loader needs one beside the standard streams
    Start start;
    start.descriptors = limit;
    const Outcome o = run(resume_words(path, settings), directory, start);
    CAPTURE(limit, o.err);
    REQUIRE((o.code == 0 || o.code == 4));
    if (o.code == 4) {
      ++refused;
      CHECK(has(o.err, "error[io]: cannot "));
      CHECK(has(o.err, "Too many open files"));
      CHECK(has(o.err, "\n  --> "));
      CHECK(has(o.err, "\n  help: "));
      continue;
    }
    ++completed;
    check_same_run(path, whole);
    fs::remove_all(path);
  }
  CHECK(refused >= 1);
  CHECK(completed >= 1);
}
#endif
