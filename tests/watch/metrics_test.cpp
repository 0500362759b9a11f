#include "quern/watch/metrics.hpp"

#include <cmath>
#include <filesystem>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;
using test::put;
using test::TemporaryDirectory;

namespace {

std::string step_line(int step) {
  return R"({"event":"step","step":)" + std::to_string(step) +
         R"(,"tokens":10,"loss":2.5,"lr":0.1,"grad_norm":1,"ms":3,"tokens_per_second":4})" + "\n";
}

const std::string start_line = R"({"event":"start","time":1,"parameters":7,"train_tokens":8,"val_tokens":9})"
                               "\n";

struct Failure {
  ErrorKind kind;
  std::string what, place;
};

Failure failure(const std::string& path) {
  try {
    read_run(path);
  } catch (const Error& error) {
    return {error.kind, error.what(), error.place};
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("a whole run is read") {
  const TemporaryDirectory directory;
  put(directory / "metrics.jsonl",
      start_line +
          R"({"event":"eval","step":0,"split":"val","loss":4.2,"tokens":5})"
          "\n" +
          step_line(1) +
          R"({"event":"resume","step":1})"
          "\n" +
          step_line(2) +
          R"({"event":"weather","step":2,"sky":"grey"})"
          "\n"
          R"({"event":"eval","step":2,"split":"val","loss":null,"tokens":5,"seconds":0.5})"
          "\n"
          R"({"event":"eval","step":2,"split":"test","loss":2,"tokens":5})"
          "\n"
          R"({"event":"checkpoint","step":2,"path":"ckpt/step-000000002"})"
          "\n"
          R"({"event":"end","step":2,"status":"completed"})");  // no newline, but whole
  const Metrics metrics = read_run(directory.path().string());
  REQUIRE(metrics.start);
  CHECK(metrics.start->parameters == 7);
  CHECK(metrics.started == 1);
  CHECK_FALSE(metrics.start->entropy_floor);
  REQUIRE(metrics.steps.size() == 2);
  CHECK(metrics.steps[1].step == 2);
  CHECK(metrics.steps[1].tokens_per_second == 4);
  REQUIRE(metrics.evals.size() == 3);
  CHECK(std::isnan(metrics.evals[1].loss));
  CHECK(metrics.evals[1].seconds == 0.5);
  CHECK(metrics.resumes == std::vector<std::int64_t>{1});
  CHECK(metrics.checkpoints.size() == 1);
  REQUIRE(metrics.end);
  CHECK(metrics.end->status == "completed");
  CHECK(read_run((directory / "metrics.jsonl").string()).steps.size() == 2);
}

TEST_CASE("a step's phases and memory are read where the file has them") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  std::string with = step_line(2);
  with.insert(with.rfind('}'),
              R"(,"data_ms":1,"forward_ms":2,"backward_ms":3,"optimizer_ms":4,"rss":5,"update_ratio":6)");
  put(path, step_line(1) + with);
  const Metrics metrics = read_metrics(path.string());
  REQUIRE(metrics.steps.size() == 2);
  CHECK_FALSE(metrics.steps[0].phases);  // as older programs wrote it
  CHECK(metrics.steps[0].rss == 0);
  CHECK_FALSE(metrics.steps[0].update_ratio);
  REQUIRE(metrics.steps[1].phases);
  CHECK(metrics.steps[1].phases->data == 1);
  CHECK(metrics.steps[1].phases->forward == 2);
  CHECK(metrics.steps[1].phases->backward == 3);
  CHECK(metrics.steps[1].phases->optimizer == 4);
  CHECK(metrics.steps[1].rss == 5);
  CHECK(metrics.steps[1].update_ratio == 6);
  with.replace(with.find("\"forward_ms\":2,"), 15, "");
  put(path, with);
  CHECK(failure(path.string()).what.find("forward_ms") != std::string::npos);  // all of them, or none
}

TEST_CASE("a last line that is cut short at any byte is left out") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  const std::string whole = step_line(1), last = step_line(2);
  for (std::size_t length = 0; length + 1 < last.size(); ++length) {
    put(path, whole + last.substr(0, length));
    const bool object_complete = length == last.size() - 1;
    CHECK(read_metrics(path.string()).steps.size() == (object_complete ? 2U : 1U));
  }
}

TEST_CASE("the last step of a run is the one that its last resume names") {
  const TemporaryDirectory directory;
  const std::string start =
      R"({"event":"start","parameters":7,"train_tokens":8,"val_tokens":9,"max_steps":20})"
      "\n";
  const std::string resume = R"({"event":"resume","step":2,"max_steps":40})"
                             "\n";
  put(directory / "m", start);
  CHECK(read_metrics((directory / "m").string()).start->max_steps == 20);
  CHECK(std::isnan(read_metrics((directory / "m").string()).started));
  put(directory / "m", start + step_line(2) + resume);
  CHECK(read_metrics((directory / "m").string()).start->max_steps == 40);
}

TEST_CASE("the best evaluation is the lowest finite one of the validation split") {
  Metrics metrics;
  CHECK(best_evaluation(metrics) == nullptr);
  metrics.evals = {{0, "val", 4, 1, 0, false},  {2, "val", std::nan(""), 1, 0, false},
                   {2, "test", 1, 1, 0, false}, {3, "val", 2, 1, 0, false},
                   {4, "val", 2, 1, 0, false},  {5, "val", 3, 1, 0, false}};
  REQUIRE(best_evaluation(metrics) != nullptr);
  CHECK(best_evaluation(metrics)->step == 3);
}

TEST_CASE("an end before a resume is no end") {
  const TemporaryDirectory directory;
  put(directory / "m", R"({"event":"end","step":2,"status":"interrupted"})"
                       "\n"
                       R"({"event":"resume","step":2})"
                       "\n");
  CHECK_FALSE(read_metrics((directory / "m").string()).end);
}

TEST_CASE("whatever else is wrong is refused at its line") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  const std::pair<std::string, std::string> cases[] = {
      {"nonsense\n", "not JSON"},
      {"\n", "not JSON"},
      {std::string("\0\0\n", 3), "not JSON"},
      {"[1]\n", "not a JSON object"},
      {"{}\n", "\"event\" is missing"},
      {R"({"event":3})"
       "\n",
       "\"event\" is not a string"},
      {R"({"event":"step"})"
       "\n",
       "\"step\" is missing"},
      {R"({"event":"step","step":1.5})"
       "\n",
       "\"step\" is not a whole number of 0 or more"},
      {R"({"event":"step","step":-1})"
       "\n",
       "\"step\" is not a whole number of 0 or more"},
      {R"({"event":"step","step":18446744073709551615})"
       "\n",
       "\"step\" is not a whole number of 0 or more"},
      {R"({"event":"eval","step":1,"split":"val","loss":"low"})"
       "\n",
       "\"loss\" is not a number"},
      {step_line(1), "step 1 follows step 1"},
      {start_line, "a second \"start\""},
  };
  for (const auto& [line, what] : cases) {
    put(path, start_line + step_line(1) + line + step_line(2));
    const Failure found = failure(path.string());
    CAPTURE(line);
    CHECK(found.kind == ErrorKind::file);
    CHECK(found.what == "a line of the metrics is wrong: " + what);
    CHECK(found.place == path.string() + ":3");
  }
  const std::string eval = R"({"event":"eval","step":4,"split":"val","loss":2,"tokens":5})"
                           "\n";
  put(path, eval + eval);
  CHECK(failure(path.string()).what ==
        "a line of the metrics is wrong: the evaluation of step 4 follows that of step 4");
  std::string splits;
  for (int i = 0; i < 65; ++i)
    splits +=
        R"({"event":"eval","step":4,"split":"s)" + std::to_string(i) + R"(","loss":2,"tokens":5})" + "\n";
  put(path, splits);
  CHECK(failure(path.string()).what == "a line of the metrics is wrong: more than 64 splits in one step");
}

TEST_CASE("metrics of more than 4 GiB are not read at all") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  put(path, start_line + step_line(1));
  for (const std::uintmax_t bytes : {(std::uintmax_t{4} << 30) + 1, std::uintmax_t{1} << 40}) {
    std::filesystem::resize_file(path, bytes);  // zeros that take no space
    const Failure found = failure(path.string());
    CHECK(found.kind == ErrorKind::file);
    CHECK(found.what ==
          "the file has " + std::to_string(bytes) + " bytes, more than the 4294967296 allowed here");
    CHECK(found.place == path.string());
  }
}

TEST_CASE("what is no run has exit code 7") {
  const TemporaryDirectory directory;
  CHECK(failure((directory / "absent").string()).kind == ErrorKind::run);
  CHECK(failure(directory.path().string()).kind == ErrorKind::run);
  CHECK(failure(directory.path().string()).what == "this directory is no run: it holds no metrics.jsonl");
}
