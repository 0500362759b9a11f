#include "quern/watch/console.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "catch.hpp"

using namespace quern;

namespace {

/// A console that writes into a pipe, with a clock and a width of the test's.
struct Stage {
  explicit Stage(bool live, std::int64_t log_interval = 10, bool quiet = false, bool dumb = false) {
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    ConsoleOptions options;
    options.terminal = {ends[1], live || dumb, live, true, false, 80};
    options.log_interval = log_interval;
    options.quiet = quiet;
    options.clock = [this] { return now; };
    options.resident = [] { return std::int64_t{1181116006}; };  // 1.1 GiB
    options.width = [this] { return width; };
    console = std::make_unique<Console>(options);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    // Without a reader the console gives up what it still holds.
    const auto old = std::signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    console.reset();
    close(ends[1]);
    std::signal(SIGPIPE, old);
  }

  std::string drain() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }

  int ends[2];
  double now = 0;
  int width = 80;
  std::unique_ptr<Console> console;
};

StartEvent start() {
  StartEvent event;
  event.max_steps = 5000;
  event.parameters = 10712064;
  event.train_tokens = 1003854;
  event.val_tokens = 111540;
  event.vocab_size = 65;
  event.tokens_per_step = 21120;
  event.name = "toy";
  event.run_dir = "runs/toy one";
  event.threads = 2;
  event.isa = "x86-64-v4";
  return event;
}

StepEvent step(std::int64_t number, double loss = 1.8734) {
  return {number, 21120 * number, loss, std::nullopt, 5.7e-4, 0.81, 512, 41250};
}

}  // namespace

TEST_CASE("without a terminal: plain lines, one an interval, no carriage return") {
  Stage stage(false, 100);
  stage.console->on_start(start());
  CHECK(stage.drain() ==
        "toy: 10,712,064 parameters, vocabulary 65\n"
        "1,003,854 training tokens, 111,540 validation tokens\n"
        "5,000 steps of 21,120 tokens in f32 on 2 threads, x86-64-v4\n"
        "run directory runs/toy one\n");
  stage.console->on_eval({0, "val", 4.1799, 111540, 0.4, true});
  CHECK(stage.drain() == "step 0: val loss 4.1799 (best), 111,540 tokens in 0.40 s\n");
  std::string said;
  for (int i = 1; i <= 250; ++i) {
    stage.console->on_step(step(i));
    said += stage.drain();
  }
  CHECK(said ==
        "step    1/5000 0% | loss 1.873 (ema 1.87) | val 4.18 | lr 5.7e-4 | gnorm .81 | 41.2k tok/s | 512 "
        "ms/step | RSS 1.1 GiB | ETA "
        "42:39\n"
        "step  100/5000 2% | loss 1.873 (ema 1.87) | val 4.18 | lr 5.7e-4 | gnorm .81 | 41.2k tok/s | 512 "
        "ms/step | RSS 1.1 GiB | ETA "
        "41:49\n"
        "step  200/5000 4% | loss 1.873 (ema 1.87) | val 4.18 | lr 5.7e-4 | gnorm .81 | 41.2k tok/s | 512 "
        "ms/step | RSS 1.1 GiB | ETA "
        "40:58\n");
  stage.console->on_checkpoint({250, "ckpt/step-000000250", 0.05});
  CHECK(stage.drain() == "step 250: saved ckpt/step-000000250 in 0.05 s\n");
  stage.console->on_end({250, "interrupted", 128.0, 1.5, 200});
  CHECK(stage.drain() ==
        "interrupted after step 250 in 2:08; best validation loss 1.5000 at step 200\n"
        "go on with: quern train --resume 'runs/toy one'\n");
}

TEST_CASE("a terminal that redraws nothing gets lines that fit it") {
  Stage stage(false, 100, false, true);
  stage.console->on_start(start());
  stage.drain();
  stage.console->on_step(step(1));
  CHECK(stage.drain() == "step    1/5000 0% | loss 1.873 (ema 1.87) | lr 5.7e-4 | 41.2k tok/s | ETA 42:39\n");
}

TEST_CASE("a step without a target has no loss, one that went wrong has a bad one") {
  Stage stage(false, 1);
  stage.console->on_start(start());
  stage.drain();
  StepEvent event = step(1);
  event.loss = event.grad_norm = std::numeric_limits<double>::quiet_NaN();
  stage.console->on_step(event);
  CHECK(stage.drain().starts_with("step    1/5000 0% | loss nan (ema nan) | lr 5.7e-4 | gnorm nan |"));
  event.step = 2, event.tokens_per_second = 0;
  stage.console->on_step(event);
  CHECK(stage.drain().starts_with("step    2/5000 0% | loss - (ema -) | lr 5.7e-4 | gnorm - | 0 tok/s |"));
  stage.console->on_step(step(3));
  stage.drain();
  stage.console->on_step(event);
  CHECK(stage.drain().starts_with("step    2/5000 0% | loss - (ema 1.87) | lr 5.7e-4 | gnorm - |"));
}

TEST_CASE("a resumed run says from where, and counts its first step from there") {
  Stage stage(false, 100);
  StartEvent begin = start();
  begin.step = 120;
  stage.console->on_resume({begin, "ckpt/step-000000120"});
  CHECK(stage.drain().ends_with("resumed after step 120 from ckpt/step-000000120\n"));
  stage.console->on_step(step(121));
  CHECK(stage.drain().starts_with("step  121/5000"));
  stage.console->on_step(step(122));
  CHECK(stage.drain().empty());
}

TEST_CASE("a run that goes back is told so, and its steps are said again; the error tells of a stop") {
  Stage stage(false, 10);
  stage.console->on_start(start());
  for (std::int64_t i = 1; i <= 25; ++i) stage.console->on_step(step(i));
  stage.console->on_eval({25, "val", 1.9, 100, 0.5});
  stage.drain();
  stage.console->on_anomaly({26, "nonfinite", "rollback", 1, 2, std::nullopt, 15, "step 26: back\x1b[2J"});
  CHECK(stage.drain().starts_with("step 26: back"));
  for (std::int64_t i = 16; i <= 20; ++i) stage.console->on_step(step(i));
  CHECK(stage.drain().starts_with("step   20/5000"));
  stage.console->on_eval({20, "val", 1.9, 100, 0.5});
  stage.console->on_step(step(5000));
  CHECK(stage.drain().find("ETA 0:00") != std::string::npos);
  stage.console->on_anomaly({21, "nonfinite", "stop", 1, 2, std::nullopt, std::nullopt, "step 21: the end"});
  CHECK(stage.drain().empty());
}

TEST_CASE("the last step is always said") {
  Stage stage(false, 1000);
  stage.console->on_start(start());
  stage.drain();
  stage.console->on_step(step(4999));
  CHECK(stage.drain().empty());
  stage.console->on_step(step(5000));
  CHECK(stage.drain().starts_with("step 5000/5000 100% |"));
}

TEST_CASE("on a terminal one line is redrawn, at most ten times a second") {
  Stage stage(true);
  stage.console->on_start(start());
  stage.drain();
  stage.console->on_step(step(1));
  CHECK(stage.drain() ==
        "\rstep    1/5000 0% | loss 1.873 (ema 1.87) | lr 5.7e-4 | 41.2k tok/s | ETA 42:39\x1b[J\r");
  int drawn = 0;
  for (int i = 2; i <= 1001; ++i) {  // a thousand steps in one second
    stage.now += 0.001;
    stage.console->on_step(step(i));
    drawn += !stage.drain().empty();
  }
  CHECK(drawn <= 10);
  CHECK(drawn >= 9);
}

TEST_CASE("other lines take the place of the progress line, and its last state stays at the end") {
  Stage stage(true);
  stage.console->on_start(start());
  stage.console->on_step(step(1));
  stage.drain();
  stage.console->on_note({1, "warning: \x1b[2Jdisk nearly full\nreally\n", true});
  CHECK(stage.drain() == "\r\x1b[Jwarning: \uFFFD[2Jdisk nearly full\nreally\n");
  stage.console->on_note({1, "x"});
  CHECK(stage.drain() == "x\n");    // nothing to erase
  stage.console->on_step(step(2));  // too early to draw
  CHECK(stage.drain().empty());
  stage.console->on_end({2, "completed", 1, std::nullopt, 0});
  const std::string end = stage.drain();
  CHECK(end.starts_with("step    2/5000 0% | loss 1.873"));
  CHECK(end.ends_with("\ncompleted after step 2 in 1.00 s\n"));
}

TEST_CASE("the progress line fits every width and gives up its least important fields first") {
  Stage stage(true);
  stage.console->on_start(start());
  stage.console->on_eval({0, "val", 1.95, 10, 0.1, true});
  stage.drain();
  const auto line_at = [&](int width) {
    stage.width = width;
    stage.now += 1;
    stage.console->on_step(step(1200));
    std::string text = stage.drain();
    REQUIRE(text.starts_with("\r"));
    REQUIRE(text.ends_with("\x1b[J\r"));
    return text.substr(1, text.size() - 5);
  };
  CHECK(line_at(140) ==
        "step 1200/5000 24% | loss 1.873 (ema 1.87) | val 1.95 | lr 5.7e-4 | gnorm .81 | 41.2k tok/s | 512 "
        "ms/step | RSS 1.1 GiB | ETA 32:26");
  CHECK(line_at(125) ==
        "step 1200/5000 24% | loss 1.873 (ema 1.87) | val 1.95 | lr 5.7e-4 | gnorm .81 | 41.2k tok/s | 512 "
        "ms/step | ETA 32:26");
  CHECK(line_at(81) == "step 1200/5000 24% | loss 1.873 (ema 1.87) | val 1.95 | 41.2k tok/s | ETA 32:26");
  CHECK(line_at(60) == "step 1200/5000 24% | loss 1.873 | val 1.95 | ETA 32:26");
  CHECK(line_at(34) == "step 1200/5000 24% | loss 1.873");
  CHECK(line_at(20) == "step 1200/5000 24%");
  CHECK(line_at(10) == "step 120~");
  for (int width = 1; width <= 200; ++width)
    CHECK(static_cast<int>(line_at(width).size()) <= std::max(1, width - 1));
}

TEST_CASE("the ETA counts steps, and what evaluations and checkpoints cost on average") {
  Stage stage(false, 1);
  StartEvent begin = start();
  begin.max_steps = 1000;
  stage.console->on_start(begin);
  StepEvent event = step(1);
  event.ms = 9000;  // the first step does not count
  stage.console->on_step(event);
  for (int i = 2; i <= 400; ++i) {
    event = step(i);
    event.ms = 100;
    if (i == 100) {
      stage.console->on_eval({0, "val", 2, 10, 99, true});    // the first tells nothing about the interval
      stage.console->on_eval({100, "val", 2, 10, 20, true});  // 0.2 s a step
    }
    if (i == 200) stage.console->on_checkpoint({100, "a", 1});
    if (i == 300) stage.console->on_checkpoint({300, "b", 10});  // 0.05 s a step
    stage.drain();
    stage.console->on_step(event);
  }
  // 600 steps at 0.1 + 0.2 + 0.05 s are 210 s.
  CHECK(stage.drain().ends_with("| ETA 3:30\n"));
}

TEST_CASE("the first step of a process does not enter the average time") {
  Stage stage(false, 1);
  stage.console->on_start(start());
  StepEvent event = step(1);
  event.ms = 9000;
  stage.console->on_step(event);
  event = step(2);
  event.ms = 100;
  stage.drain();
  stage.console->on_step(event);
  CHECK(stage.drain().find("| 100 ms/step |") != std::string::npos);
}

TEST_CASE("quiet shows warnings only") {
  Stage stage(true, 10, true);
  stage.console->on_start(start());
  stage.console->on_step(step(10));
  stage.console->on_eval({10, "val", 2, 10, 0.1, true});
  stage.console->on_note({10, "a sample"});
  stage.console->on_note({10, "warning: odd", true});
  stage.console->on_checkpoint({10, "a", 1});
  stage.console->on_end({10, "completed", 1, 2.0, 10});
  CHECK(stage.drain() == "warning: odd\n");
}

TEST_CASE("a reader that stops reading holds nothing up, and gets the lines in order later") {
  Stage stage(false, 1);
  stage.console->on_start(start());
  for (int i = 1; i <= 1500; ++i) stage.console->on_step(step(i));  // far more than a pipe of 64 KiB takes
  std::string text;
  for (int i = 1501; i <= 1520; ++i) {
    text += stage.drain();
    stage.console->on_step(step(i));
  }
  text += stage.drain();
  std::size_t at = 0;
  for (int i = 1; i <= 1520; ++i) {
    const std::string number = std::to_string(i);
    at = text.find("\nstep " + std::string(4 - number.size(), ' ') + number + "/5000", at);
    REQUIRE(at != std::string::npos);
  }
}

TEST_CASE("lines beyond a mebibyte that nobody reads are dropped, and that is said") {
  Stage stage(false, 1);
  const std::string long_note(100000, 'x');
  for (int i = 0; i < 20; ++i) stage.console->on_note({1, long_note});
  std::string text;
  for (int i = 0; i < 40; ++i) {  // 40 pipes' worth
    text += stage.drain();
    stage.console->on_note({1, "later"});
  }
  CHECK(text.size() < 1300000);
  CHECK(text.find("\n[some lines are missing: nobody read them in time]\nlater\n") != std::string::npos);
}

TEST_CASE("a reader that went away ends the console, not the run") {
  const auto old = std::signal(SIGPIPE, SIG_IGN);  // as the program does
  {
    Stage stage(false, 1);
    close(stage.ends[0]);
    stage.console->on_start(start());
    for (int i = 1; i <= 5; ++i) stage.console->on_step(step(i));
    stage.ends[0] = open("/dev/null", O_RDONLY);
  }
  std::signal(SIGPIPE, old);
}

TEST_CASE("the moving average corrects its bias and leaves out what is not finite") {
  Ema ema(0.9);
  CHECK_FALSE(ema.value());
  ema.add(std::numeric_limits<double>::quiet_NaN());
  CHECK_FALSE(ema.value());
  ema.add(3);
  CHECK(*ema.value() == Approx(3));
  ema.add(5);
  CHECK(*ema.value() == Approx((0.9 * 3 + 5) / 1.9));
}

TEST_CASE("pauses are spread over the steps between them") {
  Amortised pauses;
  CHECK(pauses.seconds_per_step() == 0);
  pauses.add(0, 5);
  CHECK(pauses.seconds_per_step() == 0);
  pauses.add(100, 2);
  pauses.add(200, 4);
  CHECK(pauses.seconds_per_step() == Approx(0.03));
}
