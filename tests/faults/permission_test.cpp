// Files and directories that the system keeps from an ordinary user: exit 4 with the path, before step 1.
#include <sys/stat.h>

#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

constexpr uid_t nobody = 65534;

/// A directory of an ordinary user with a config, a text and a finished run in it. Root ignores modes, so
/// that under root all programs run as that user.
struct Place {
  TemporaryDirectory directory;
  Start as_user;
  fs::path home = directory / "home", path = home / "run", config = home / "config.json",
           text = home / "text.txt";

  Place() {
    fs::create_directory(home);
    if (::geteuid() == 0) {
      as_user.user = nobody;
      fs::permissions(directory.path(), fs::perms(0755));
      REQUIRE(::chown(home.c_str(), nobody, nobody) == 0);
    }
    std::string sentences;
    for (int i = 0; i < 200; ++i) sentences += "Number " + std::to_string(i * 37 % 101) + " is a number.\n";
    put(text, sentences);
    put(config, R"({"model": {"d_model": 8, "n_layers": 1, "n_heads": 1, "context_length": 8},
                    "data": {"tokenizer": "char"}, "schedule": {"warmup_steps": 0},
                    "run": {"max_steps": 2, "checkpoint_interval": 1, "batch_size": 2, "eval_batches": 1}})");
  }

  Outcome quern(const std::vector<std::string>& words) { return run(words, directory, as_user); }
  Outcome train(const fs::path& run_directory, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train",     "-q",
                                      "--config",  config.string(),
                                      "--run-dir", run_directory.string(),
                                      "--set",     "data.text=" + text.string()};
    words.insert(words.end(), more.begin(), more.end());
    return quern(words);
  }

  /// Whether the user can run the program at all.
  bool usable() {
    const Outcome o = quern({"--version"});
    if (o.code == 0) return true;
    WARN("user 65534 may not run " QUERN_PROGRAM " (exit " << o.code << "): permissions are not tried");
    return false;
  }
};

/// Takes all permissions of a path away for a while.
class Forbidden {
 public:
  explicit Forbidden(const fs::path& path, fs::perms left = fs::perms::none)
      : path_(path), before_(fs::status(path).permissions()) {
    fs::permissions(path_, left);
  }
  ~Forbidden() { fs::permissions(path_, before_); }
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;

 private:
  fs::path path_;
  fs::perms before_;
};

constexpr auto read_only = fs::perms(0555);

}  // namespace

TEST_CASE("threads that the system refuses are said before there is a run") {
  Place place;
  if (place.as_user.user == 0 || !place.usable()) {
    WARN("only root can become a user without other processes: threads are not refused");
    return;
  }
  place.as_user.processes = 3;
  const Outcome o = place.train(place.path, {"--set", "run.threads=9"});
  CHECK(o.code == 6);
  CHECK(has(o.err, "error[memory]: the system starts 3 of 9 threads"));
  CHECK(!fs::exists(place.path));
  CHECK(place.train(place.path, {"--set", "run.threads=3"}).code == 0);
}

TEST_CASE("a directory that may not be written to is found before the first step") {
  Place at;
  if (!at.usable()) return;
  {
    const Forbidden locked(at.home, read_only);
    const Outcome o = at.train(at.path);
    CHECK(o.code == 4);
    CHECK(o.err == "error[io]: cannot make the directory: Permission denied\n  --> " + at.path.string() +
                       "\n  help: use a directory that this user may write to, or change its permissions\n");
  }
  fs::create_directory(at.home / "empty");
  if (at.as_user.user != 0) REQUIRE(::chown((at.home / "empty").c_str(), nobody, nobody) == 0);
  {
    const Forbidden locked(at.home / "empty", read_only);
    const Outcome o = at.train(at.home / "empty");
    CHECK(o.code == 4);
    CHECK(has(o.err, "Permission denied\n  --> " + (at.home / "empty/lock").string()));
    CHECK(fs::is_empty(at.home / "empty"));
  }
  REQUIRE(at.train(at.path).code == 0);
  const std::string metrics = get(at.path / "metrics.jsonl");
  {
    const Forbidden locked(at.path, read_only);
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"--overwrite"}, {"--resume", "auto", "--set", "run.max_steps=3"}}) {
      const Outcome o = at.train(at.path, more);
      CAPTURE(more.front(), o.err);
      CHECK(o.code == 4);
      CHECK(has(o.err, "Permission denied\n  --> " + at.path.string()));
    }
  }
  {
    const Forbidden locked(at.path / "lock", fs::perms::none);
    const Outcome o = at.train(at.path, {"--resume", "auto"});
    CHECK(o.code == 4);
    CHECK(has(o.err, "--> " + (at.path / "lock").string()));
  }
  {
    const Forbidden locked(at.path / "ckpt", read_only);
    const Outcome o = at.train(at.path, {"--resume", "auto", "--set", "run.max_steps=3"});
    CAPTURE(o.err);
    CHECK(o.code == 4);
    CHECK(has(o.err, "--> " + (at.path / "ckpt").string()));
    CHECK(get(at.path / "metrics.jsonl") == metrics);
  }
  CHECK(at.train(at.path, {"--resume", "auto", "--set", "run.max_steps=3"}).code == 0);
}

TEST_CASE("what may not be read is exit 4 with its path, and nothing is changed") {
  Place at;
  if (!at.usable()) return;
  REQUIRE(at.train(at.path).code == 0);
  const std::string run_path = at.path.string();
  const std::vector<std::string> fresh = {"train",
                                          "--config",
                                          at.config.string(),
                                          "--run-dir",
                                          (at.home / "new").string(),
                                          "--set",
                                          "data.text=" + at.text.string()};
  const std::vector<std::string> own_tokenizer = [&] {
    std::vector<std::string> words = fresh;
    words.insert(words.end(), {"--set", "data.tokenizer=" + (at.path / "tokenizer.json").string()});
    return words;
  }();
  const std::vector<std::string> resume = {"train", "--resume", run_path, "--set", "run.max_steps=3"};
  const std::vector<std::string> sample = {"sample", "--run", run_path, "--max-new-tokens", "1"};
  const std::string last = "run/ckpt/step-000000002/";
  const struct {
    std::string file;
    std::vector<std::vector<std::string>> commands;
  } cases[] = {
      {"config.json", {fresh, {"config", "check", "--config", at.config.string()}}},
      {"text.txt", {fresh, resume, {"eval", "--run", run_path}}},
      {"run", {resume, sample, {"curves", run_path}, {"eval", "--run", run_path}}},
      {"run/tokenizer.json", {own_tokenizer, resume, sample}},
      {"run/config.resolved.json", {resume, sample}},
      {"run/metrics.jsonl", {resume, sample, {"curves", run_path}}},
      {last + "manifest.json", {resume, sample}},
      {last + "state.json", {resume, sample}},
      {last + "model.safetensors", {resume, sample}},
      {last + "optim.safetensors", {resume}},
      {"run/ckpt", {resume, sample}},
      {"run/ckpt/step-000000002", {resume, sample}},
      {"text.txt", {{"sample", "--run", run_path, "--prompt-file", at.text.string()}}},
  };
  for (const auto& c : cases) {
    for (const auto& words : c.commands) {
      const Forbidden locked(at.home / c.file);
      const Outcome o = at.quern(words);
      CAPTURE(c.file, words, o.err);
      CHECK(o.code == 4);
      CHECK(o.out.empty());
      CHECK(o.err.starts_with("error[io]: cannot "));
      CHECK(has(o.err, "Permission denied"));
      CHECK(has(o.err, "  --> " + (at.home / c.file).string()));
    }
  }
  CHECK(!fs::exists(at.home / "new"));
  for (const char* step : {"step-000000001", "step-000000002"}) CHECK(fs::exists(at.path / "ckpt" / step));
  CHECK(at.quern(resume).code == 0);
}

TEST_CASE("sample without --run: a folder of runs that may not be entered is exit 4") {
  Place at;
  if (!at.usable()) return;
  fs::create_directory(at.home / "runs");
  const Forbidden locked(at.home / "runs");
  at.as_user.folder = at.home.string();
  const Outcome o = at.quern({"sample"});
  CHECK(o.code == 4);
  CHECK(o.err.starts_with("error[io]: cannot look at the file: Permission denied\n  --> runs/latest"));
}
