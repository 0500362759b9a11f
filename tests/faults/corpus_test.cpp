// The text of a run changes while it trains.
#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE(
    "a text that is cut, rewritten or gone while training reads nothing else: it was read before step 1") {
  const TemporaryDirectory directory;
  const fs::path text = directory / "text.txt", whole = directory / "whole";
  std::string sentences;
  for (int i = 0; i < 3000; ++i) sentences += "Number " + std::to_string(i * 37 % 1009) + " is a number.\n";
  const std::vector<std::string> settings = {"data.text=" + text.string(), "run.max_steps=300",
                                             "run.eval_interval=100"};
  put(text, sentences);
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  int attempt = 0;
  for (const auto& change : std::vector<std::function<void()>>{
           [&] { fs::resize_file(text, 0); }, [&] { fs::resize_file(text, 10); },
           [&] { put(text, std::string(sentences.size(), '#')); }, [&] { fs::remove(text); }}) {
    const fs::path path = directory / ("run" + std::to_string(attempt++));
    put(text, sentences);
    Program program(resume_words(path, settings), directory);
    REQUIRE(wait_for_metrics(program, path, "\"step\":3,"));
    change();
    const Outcome o = program.wait();
    CAPTURE(attempt, o.err);
    CHECK(o.code == 0);
    check_same_run(path, whole);
  }
  // A resume reads it again, and refuses another one.
  put(text, sentences.substr(1));
  const Outcome o = run(resume_words(directory / "run0", {settings[0], "run.max_steps=301"}), directory);
  CHECK(o.code == 7);
  CHECK(has(o.err, "is not the one this run was trained with"));
}
