// What happens to a run's directory while it trains, or before a resume: moved, replaced, its lock or its
// metrics taken away. The trainer stops with one message, and never touches another run.
#include <sys/stat.h>

#include <functional>
#include <map>

#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

using Tree = std::map<std::string, std::string>;

/// Every file below a directory with what it holds.
Tree tree_of(const fs::path& directory) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory).string();
    if (entry.is_regular_file()) tree[name] = get(entry.path());
    if (entry.is_directory()) tree[name + "/"] = "";
  }
  return tree;
}

// More steps than any of it takes.
const std::vector<std::string> many = {"run.max_steps=300", "run.checkpoint_interval=5",
                                       "run.eval_interval=0", "run.keep_checkpoints=2"};
constexpr const char* moved =
    "error[run]: the run's directory was moved, removed or replaced while it trained; nothing more was "
    "written\n";

/// A run that trains, stopped in the middle of a step while the test does something to it.
struct Trial {
  TemporaryDirectory directory, output;
  fs::path path = directory / "run";

  /// Two runs of the same config: checkpoints of the same steps, which pruning would take for its own.
  fs::path other() {
    const fs::path other = directory / "other";
    REQUIRE(run(resume_words(other, {"run.max_steps=30", "run.checkpoint_interval=5"}), output).code == 0);
    return other;
  }

  Outcome disturbed(const std::function<void()>& disturb, const std::vector<std::string>& words) {
    Program program(words, output);
    REQUIRE(wait_for_metrics(program, path, "ckpt/step-000000010"));
    ::kill(program.pid(), SIGSTOP);
    disturb();
    ::kill(program.pid(), SIGCONT);
    return program.wait();
  }
  Outcome disturbed(const std::function<void()>& disturb) {
    return disturbed(disturb, resume_words(path, many));
  }

  std::int64_t last_step() {
    const std::string latest = get(path / "latest");
    return std::stoll(latest.substr(latest.rfind('-') + 1));
  }
  /// Goes on with the run for a few steps.
  Outcome go_on(std::int64_t steps = 7) {
    return run({"train", "-q", "--resume", path.string(), "--set",
                "run.max_steps=" + std::to_string(last_step() + steps)},
               output);
  }
  /// Each step of the run once, from the one behind `first` on.
  void check_steps(std::int64_t first) {
    std::vector<std::int64_t> steps;
    std::istringstream metrics(get(path / "metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("event") == "step") steps.push_back(event.at("step"));
    }
    REQUIRE(steps.size() == static_cast<std::size_t>(last_step() - first));
    for (std::size_t i = 0; i < steps.size(); ++i)
      REQUIRE(steps[i] == first + 1 + static_cast<std::int64_t>(i));
  }
};

}  // namespace

TEST_CASE("a resume by a link stays with its run when the link moves on") {
  Trial at;
  const fs::path other = at.other();
  const Tree before = tree_of(other);
  REQUIRE(run(resume_words(at.path, {"run.max_steps=1"}), at.output).code == 0);
  const fs::path link = at.directory / "latest";
  fs::create_directory_symlink("run", link);
  Start start;
  start.folder = at.directory.path().string();
  Program program(with_settings({"train", "--resume", "latest"}, many), at.output, start);
  REQUIRE(wait_for_metrics(program, at.path, "ckpt/step-000000010"));
  fs::remove(link);
  fs::create_directory_symlink("other", link);
  REQUIRE(wait_for_metrics(program, at.path, "ckpt/step-000000050"));
  ::kill(program.pid(), SIGTERM);
  const Outcome o = program.wait();
  CAPTURE(o.err);
  CHECK(o.code == 128 + SIGTERM);
  CHECK(has(o.err, "quern train --resume run\n"));
  CHECK((tree_of(other) == before));
  at.check_steps(0);
}

TEST_CASE("a run whose directory is moved, removed or replaced while it trains stops, and touches no other") {
  Trial at;
  const fs::path other = at.other(), elsewhere = at.directory / "elsewhere";
  SECTION("moved: nothing is made in its place") {
    const Outcome o = at.disturbed([&] { fs::rename(at.path, elsewhere); });
    CHECK(o.code == 7);
    CHECK(has(o.err, moved + ("  --> " + at.path.string()) + "\n  help: resume the run where it is now\n"));
    CHECK(!fs::exists(at.path));
    at.path = elsewhere;
    CHECK(at.go_on().code == 0);
    at.check_steps(0);
  }
  SECTION("replaced by another run") {
    const Tree before = tree_of(other);
    const Outcome o = at.disturbed([&] {
      fs::rename(at.path, elsewhere);
      fs::rename(other, at.path);
    });
    CHECK(o.code == 7);
    CHECK(has(o.err, moved));
    CHECK((tree_of(at.path) == before));
  }
  SECTION("replaced by a link to another run") {
    const Tree before = tree_of(other);
    const Outcome o = at.disturbed([&] {
      fs::rename(at.path, elsewhere);
      fs::create_directory_symlink(other, at.path);
    });
    CHECK(o.code == 7);
    CHECK((tree_of(other) == before));
  }
  SECTION("removed, and another one started there, before a page, a sample and a checkpoint are due") {
    Tree before;
    const std::vector<std::string> settings = {"run.max_steps=300",       "run.checkpoint_interval=10",
                                               "run.eval_interval=1",     "run.eval_batches=1",
                                               "watch.sample_interval=1", "watch.sample_tokens=1"};
    const Outcome o = at.disturbed(
        [&] {
          fs::remove_all(at.path);
          fs::rename(other, at.path);
          before = tree_of(at.path);
        },
        resume_words(at.path, settings));
    CHECK(o.code == 7);
    CHECK((tree_of(at.path) == before));
  }
  SECTION("moved to another place and a link to it left: it goes on") {
    Program program(resume_words(at.path, many), at.output);
    REQUIRE(wait_for_metrics(program, at.path, "ckpt/step-000000010"));
    ::kill(program.pid(), SIGSTOP);
    fs::rename(at.path, elsewhere);
    fs::create_directory_symlink(elsewhere, at.path);
    ::kill(program.pid(), SIGCONT);
    REQUIRE(wait_for_metrics(program, at.path, "ckpt/step-000000050"));
    ::kill(program.pid(), SIGTERM);
    CHECK(program.wait().code == 128 + SIGTERM);
    at.check_steps(0);
  }
}

TEST_CASE("a run whose lock is removed stops, and the trainer that came after it is not disturbed") {
  Trial at;
  Tree before;
  std::int64_t end = 0;
  const Outcome o = at.disturbed([&] {
    fs::remove(at.path / "lock");
    end = at.last_step() + 7;
    REQUIRE(at.go_on().code == 0);
    before = tree_of(at.path);
  });
  CAPTURE(o.err);
  CHECK(o.code == 7);
  CHECK(has(o.err,
            "error[run]: the run's lock was removed or replaced while it trained: another trainer may be at "
            "work here\n  --> " +
                (at.path / "lock").string() + "\n  help: see that there is none, then resume the run\n"));
  Tree after = tree_of(at.path);
  before.erase("log.txt");  // whose lines are only ever added
  after.erase("log.txt");
  CHECK((after == before));
  CHECK(at.last_step() == end);
  at.check_steps(0);
}

TEST_CASE("a run whose own directory becomes a link while it trains stops") {
  Trial at;
  const fs::path other = at.other();
  const Tree before = tree_of(other);
  const Outcome o = at.disturbed([&] {
    fs::rename(at.path / "ckpt", at.directory / "mine");
    fs::create_directory_symlink(other / "ckpt", at.path / "ckpt");
  });
  CHECK(o.code == 7);
  CHECK(has(o.err, "error[run]: is a symbolic link where the run needs a directory of its own\n  --> " +
                       (at.path / "ckpt").string()));
  CHECK((tree_of(other) == before));
}

TEST_CASE("metrics that somebody changes while a run trains end it at the next save, and a resume goes on") {
  Trial at;
  const fs::path metrics = at.path / "metrics.jsonl";
  const auto check = [&](const Outcome& o, const std::string& what) {
    CAPTURE(o.err);
    CHECK(o.code == 4);
    CHECK(at.last_step() <= 15);
    CHECK(has(o.err, "error[io]: the run's metrics were " + what));
    CHECK(has(o.err, "\n  --> " + metrics.string() + "\n  help: "));
  };
  SECTION("removed") {
    check(at.disturbed([&] { fs::remove(metrics); }), "removed or replaced while it trained\n");
    const std::int64_t last = at.last_step();
    const Outcome o = at.go_on();
    CHECK(o.code == 0);
    CHECK(has(o.err, "metrics.jsonl is missing: it begins anew"));
    at.check_steps(last);
  }
  SECTION("replaced by an editor that writes a new file") {
    check(at.disturbed([&] {
      put(at.path / "new", get(metrics));
      fs::rename(at.path / "new", metrics);
    }),
          "removed or replaced while it trained\n");
    const Outcome o = at.go_on();
    CHECK(o.code == 0);
    CHECK(o.err.empty());
    at.check_steps(0);
  }
  SECTION("cut") {
    check(at.disturbed([&] { fs::resize_file(metrics, 1000); }), "changed while it trained: they hold ");
    // What the run wrote behind the cut is no line of a beginning.
    CHECK(at.go_on().code == 3);
    fs::remove(metrics);
    const std::int64_t last = at.last_step();
    CHECK(at.go_on().code == 0);
    at.check_steps(last);
  }
  SECTION("added to") {
    check(at.disturbed([&] { put(metrics, get(metrics) + "# a note\n"); }),
          "changed while it trained: they hold ");
    CHECK(at.go_on().code == 0);
    at.check_steps(0);
  }
}

TEST_CASE("a run whose checkpoints, samples or event files lie behind a link is refused before anything") {
  Trial at;
  const fs::path other = at.other();
  REQUIRE(
      run(resume_words(at.path, {"run.max_steps=10", "run.checkpoint_interval=5", "watch.sample_interval=5",
                                 "watch.sample_tokens=1", "watch.tensorboard=true"}),
          at.output)
          .code == 0);
  fs::create_directory(other / "ckpt/.tmp-step-000000007-12-0123456789abcdef");
  for (const std::string name : {"ckpt", "samples", "tb"}) {
    CAPTURE(name);
    REQUIRE(fs::exists(at.path / name));
    fs::rename(at.path / name, at.directory / "aside");
    fs::create_directory_symlink(other / "ckpt", at.path / name);
    const Tree before = tree_of(at.path), before_other = tree_of(other);
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"--resume", "auto"}, {"--overwrite"}}) {
      std::vector<std::string> words = {"train",         "-q", "--config", configs + "tiny.json", "--run-dir",
                                        at.path.string()};
      words.insert(words.end(), more.begin(), more.end());
      const Outcome o = run(with_settings(words, {"run.max_steps=12"}), at.output);
      CHECK(o.code == 7);
      CHECK(o.err == "error[run]: is a symbolic link where the run needs a directory of its own\n  --> " +
                         (at.path / name).string() +
                         "\n  help: put the directory itself there, or move this away\n");
    }
    CHECK((tree_of(at.path) == before));
    CHECK((tree_of(other) == before_other));
    fs::remove(at.path / name);
    fs::rename(at.directory / "aside", at.path / name);
  }
  CHECK(at.go_on().code == 0);
}

TEST_CASE("a pipe in the place of a file of the run is refused at once, before anything is deleted") {
  Trial at;
  REQUIRE(run(resume_words(at.path, {"run.max_steps=10", "run.checkpoint_interval=5"}), at.output).code == 0);
  for (const std::string name : {"log.txt", "metrics.jsonl", "lock"}) {
    CAPTURE(name);
    fs::rename(at.path / name, at.directory / "aside");
    REQUIRE(::mkfifo((at.path / name).c_str(), 0600) == 0);
    const Tree before = tree_of(at.path / "ckpt");
    // A resume that hangs is ended by the signal.
    Program program({"train", "-q", "--resume", (at.path / "ckpt/step-000000005").string()}, at.output);
    const auto begin = std::chrono::steady_clock::now();
    bool hung = false;
    while (!has_ended(program) && !hung) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      hung = std::chrono::steady_clock::now() - begin > std::chrono::seconds(30);
    }
    if (hung) ::kill(program.pid(), SIGKILL);
    const Outcome o = program.wait();
    CAPTURE(o.err);
    CHECK(o.code == (name == "metrics.jsonl" ? 3 : 4));
    CHECK(has(o.err, "  --> " + (at.path / name).string() + "\n"));
    CHECK((tree_of(at.path / "ckpt") == before));
    fs::remove(at.path / name);
    fs::rename(at.directory / "aside", at.path / name);
  }
  CHECK(at.go_on().code == 0);
}
