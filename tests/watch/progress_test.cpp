#include "quern/watch/progress.hpp"

#include <unistd.h>

#include "catch.hpp"

using namespace quern;

TEST_CASE("progress says how much of how much, and when it will be done") {
  CHECK(progress_text("evaluating batch", 120, 400, 6, "") == "evaluating batch 120/400 30% | ETA 0:14");
  CHECK(progress_text("line", 1'200, 0, 6, "") == "line 1,200");
  CHECK(progress_text("runs", 0, 4, 6, "2 running") == "runs 0/4 0% | 2 running");
}

TEST_CASE("nothing is drawn where a line cannot be redrawn, and nothing for what is quick") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  Terminal terminal;
  terminal.fd = ends[1];
  {
    ProgressLine quick({ends[1], true, true, true, false, 80}, "quick", 10);
    quick.update(5);
    ProgressLine hidden(terminal, "hidden", 10);
    hidden.update(5);
  }
  close(ends[1]);
  char byte;
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
}
