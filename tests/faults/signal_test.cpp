// Signals: the first one finishes the step, saves and exits 128+n; the second one ends the program at once.
#include <random>

#include "cli/runs.hpp"
#include "faults/long_tests.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> endless = {"run.max_steps=1000000", "schedule.decay_steps=50",
                                          "run.eval_interval=0"};

}  // namespace

TEST_CASE("50 signals at random instants: exit 128+n, and the run ends as if nothing had been") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  // Evaluations take about a third of the time, and every step is saved, so that signals meet each of them.
  const std::vector<std::string> settings = {"run.max_steps=40", "run.eval_interval=2", "run.eval_batches=4",
                                             "run.checkpoint_interval=1"};
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  const std::chrono::duration<double> uninterrupted = std::chrono::steady_clock::now() - begin;

  std::mt19937 random(50);
  const int wanted = times(50, 200);
  int signals = 0, saved = 0;
  for (int starts = 0; signals < wanted && starts < 10 * wanted; ++starts) {
    const int signal = std::array{SIGINT, SIGTERM, SIGHUP}[static_cast<std::size_t>(starts % 3)];
    Program program(resume_words(path, settings), directory);
    sleep_for_random(uninterrupted.count() / 2, static_cast<std::uint32_t>(random()));
    ::kill(program.pid(), signal);
    const Outcome o = program.wait();
    CAPTURE(starts, signal, o.by_signal, o.err);
    REQUIRE((o.code == 0 || o.code == 128 + signal));
    signals += o.code != 0;
    // Before the training and after it there is nothing to save, and the signal just ends the program.
    if (o.code != 0 && !o.by_signal) {
      REQUIRE(has(o.err, " after step "));
      ++saved;
    }
    if (o.code != 0) continue;
    check_same_run(path, whole);
    fs::remove_all(path);
  }
  CHECK(signals == wanted);
  CHECK(saved > 10);
  REQUIRE(run(resume_words(path, settings), directory).code == 0);
  check_same_run(path, whole);
}

TEST_CASE("a signal within a long evaluation: it is left, and what is there is saved") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  // Windows that advance by one token: hours.
  Program program(resume_words(path, {"data.eval_stride=1", "run.eval_batches=0"}), directory);
  REQUIRE(wait_for_metrics(program, path, "\"start\""));
  REQUIRE(wait_until(program, [&] { return catches(program, SIGTERM); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(program.pid(), SIGTERM);
  const Outcome o = program.wait();
  CAPTURE(o.err);
  CHECK(o.code == 128 + SIGTERM);
  CHECK(!o.by_signal);
  CHECK(has(o.err, "saved ckpt/step-000000000"));
  CHECK(has(o.err, "interrupted after step 0"));
  CHECK(has(o.err, "go on with: quern train --resume " + path.string()));
  CHECK(recorded(path).empty());
}

TEST_CASE("a signal within the last evaluation: the run is not complete, and a resume evaluates it") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  const std::vector<std::string> settings = {"run.max_steps=2", "run.eval_interval=100",
                                             "run.eval_batches=150", "data.eval_stride=1"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  int within = 0;
  for (int attempt = 0; attempt < 20 && within < 3; ++attempt) {
    const auto o = stopped_at(path, settings, "ckpt/step-000000002", SIGTERM, directory);
    if (!o || o->code == 0) continue;  // it was faster
    ++within;
    CAPTURE(o->err);
    CHECK(o->code == 128 + SIGTERM);
    CHECK(has(get(path / "metrics.jsonl"), "\"interrupted\""));
    REQUIRE(run(resume_words(path, settings), directory).code == 0);
    check_same_run(path, whole);
  }
  CHECK(within == 3);
}

TEST_CASE("SIGUSR1 saves and the run goes on, to the same end") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  const std::vector<std::string> settings = {"run.max_steps=300", "run.checkpoint_interval=100000"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  Program program(resume_words(path, settings), directory);
  REQUIRE(wait_for_metrics(program, path, "\"step\":9,"));
  ::kill(program.pid(), SIGUSR1);
  const Outcome o = program.wait();
  CAPTURE(o.err);
  CHECK(o.code == 0);
  const std::string metrics = get(path / "metrics.jsonl"), others = get(whole / "metrics.jsonl");
  const auto saves = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("\"checkpoint\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(saves(metrics) == saves(others) + 1);
  check_same_run(path, whole);
}

TEST_CASE("a hail of signals within the products changes no number") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  // On one thread: the one that signals go to does all products.
  const std::vector<std::string> settings = {"run.threads=1",           "run.max_steps=40",
                                             "model.d_model=64",        "model.n_heads=4",
                                             "model.context_length=64", "run.batch_size=8"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  Program program(resume_words(path, settings), directory);
  REQUIRE(wait_until(program, [&] { return catches(program, SIGUSR1); }));
  int sent = 0;
  while (!has_ended(program)) {
    ::kill(program.pid(), SIGUSR1);
    ++sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Outcome o = program.wait();
  CAPTURE(sent, o.err);
  REQUIRE(o.code == 0);
  CHECK(sent > 100);
  check_same_run(path, whole);
}

TEST_CASE("a second signal ends the program at once, and the checkpoints stay intact") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  // Long steps, so that the second signal comes before the first has been obeyed; mostly.
  const std::vector<std::string> settings = {"run.max_steps=6", "schedule.decay_steps=6",
                                             "run.grad_accumulation=60", "run.checkpoint_interval=1",
                                             "run.eval_interval=0"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  int at_once = 0;
  for (int attempt = 0; attempt < 50 && at_once < 2; ++attempt) {
    fs::remove_all(path);
    Program program(resume_words(path, settings), directory);
    if (!wait_for_metrics(program, path, "\"step\":2,")) continue;
    ::kill(program.pid(), SIGINT);
    if (!wait_until(program, [&] { return !catches(program, SIGINT); })) continue;
    ::kill(program.pid(), SIGTERM);
    const Outcome o = program.wait();
    CAPTURE(attempt, o.code, o.err);
    REQUIRE((o.code == 128 + SIGTERM || o.code == 128 + SIGINT));
    if (!o.by_signal || has(o.err, "interrupted")) continue;  // the first one had been obeyed already
    ++at_once;
    REQUIRE(run(resume_words(path, settings), directory).code == 0);
    check_same_run(path, whole);
  }
  CHECK(at_once == 2);
}

TEST_CASE("under nohup a hangup stops nothing, other signals do") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  Start nohup;
  nohup.ignore_hangup = true;
  Program program(resume_words(path, endless), directory, nohup);
  REQUIRE(wait_for_metrics(program, path, "\"step\":2,"));
  ::kill(program.pid(), SIGHUP);
  REQUIRE(wait_for_metrics(program, path, "\"step\":20,"));
  ::kill(program.pid(), SIGINT);
  const Outcome o = program.wait();
  CAPTURE(o.err);
  CHECK(o.code == 128 + SIGINT);
}

TEST_CASE("a signal stops sample and eval cleanly") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run";
  REQUIRE(run(resume_words(path, {"run.max_steps=1", "data.eval_stride=1", "run.eval_batches=1"}), directory)
              .code == 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Program sample({"sample", "--run", path.string(), "--max-new-tokens", "1000000000"}, directory);
    REQUIRE(wait_until(sample, [&] { return sample.out().size() > 100; }));
    ::kill(sample.pid(), signal);
    Outcome o = sample.wait();
    CAPTURE(signal, o.err);
    CHECK(o.code == 128 + signal);
    CHECK(!o.by_signal);
    CHECK(o.out.ends_with('\n'));

    Program eval({"eval", "--run", path.string(), "--json"}, directory);
    REQUIRE(wait_until(eval, [&] { return catches(eval, signal); }));
    ::kill(eval.pid(), signal);
    o = eval.wait();
    CHECK(o.code == 128 + signal);
    CHECK(!o.by_signal);
    CHECK(o.out.empty());
  }
}
