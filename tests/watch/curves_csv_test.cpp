#include "quern/watch/curves_csv.hpp"

#include <limits>

#include "catch.hpp"

using namespace quern;

TEST_CASE("every step and evaluation of all runs as a table") {
  NamedMetrics one{"a,\"b\"", {}}, two{"two", {}};
  StepEvent step{1, 100, 0.1, std::nullopt, 1e-3, 2.5, 1500, 66.5};
  one.metrics.evals = {{0, "val", 4, 10, 0.5, false, {}}, {1, "val", 3, 10, 0.5, true, {{"accuracy", 0.75}}}};
  one.metrics.steps = {step};
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.phases = {1, 2, 3, 4};
  step.rss = 4096;
  step.update_ratio = 0.25;
  two.metrics.steps = {step};
  CHECK(curves_csv({one, two}) ==
        "run,event,step,tokens,seconds,loss,lr,grad_norm,tokens_per_second,ms,data_ms,forward_ms,backward_ms,"
        "optimizer_ms,rss,update_ratio,accuracy\n"
        "\"a,\"\"b\"\"\",eval,0,0,0,4,,,,,,,,,,,\n"
        "\"a,\"\"b\"\"\",step,1,100,2,0.1,0.001,2.5,66.5,1500,,,,,,,\n"
        "\"a,\"\"b\"\"\",eval,1,100,2,3,,,,,,,,,,,0.75\n"
        "two,step,1,100,1.5,,0.001,2.5,66.5,1500,1,2,3,4,4096,0.25,\n");
}
