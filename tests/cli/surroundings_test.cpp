// Where and among what the program runs: locale, home, terminal, odd paths, closed streams.
#include <fcntl.h>

#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> short_run = {"run.max_steps=3", "run.eval_batches=1"};

/// A pipe whose reader reads so many bytes and goes away.
class HeadPipe {
 public:
  HeadPipe() { REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  ~HeadPipe() {
    for (const int fd : ends_) ::close(fd);
  }
  HeadPipe(const HeadPipe&) = delete;
  HeadPipe& operator=(const HeadPipe&) = delete;

  int writing_end() const { return ends_[1]; }
  std::string read_and_leave(std::size_t bytes) {
    ::close(std::exchange(ends_[1], -1));  // the program's copy is the last one
    std::string text(bytes, '\0');
    const ssize_t got = ::read(ends_[0], text.data(), bytes);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    ::close(std::exchange(ends_[0], -1));
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

Outcome run_head(const std::vector<std::string>& words, const TemporaryDirectory& directory,
                 std::size_t bytes, bool of_err = false) {
  HeadPipe pipe;
  Start start;
  (of_err ? start.err : start.out) = pipe.writing_end();
  Program program(words, directory, start);
  const std::string text = pipe.read_and_leave(bytes);
  CHECK(text.size() == bytes);
  return program.wait();
}

}  // namespace

TEST_CASE("a bare environment, a dumb terminal, odd paths: everything works as elsewhere") {
  const TemporaryDirectory directory;
  const fs::path odd = directory / "a folder, \xc3\xa9t\xc3\xa9 \xe6\x97\xa5";  // été 日
  const fs::path path = odd / "my run's \"\xc3\xbc\"", config = odd / "conf ig \xc3\xb6.json",
                 text = odd / "te xt \xc3\x9f.txt";
  fs::create_directory(odd);
  fs::copy_file(configs + "tiny.json", config);
  fs::copy_file(fs::path(QUERN_DATA_DIR) / "toy.txt", text);
  Start bare;
  bare.environment = {"LANG=C", "LC_ALL=C", "HOME", "TERM=dumb", "XDG_CONFIG_HOME", "USER"};
  std::vector<std::string> settings = short_run;
  settings.push_back("data.text=" + text.string());
  const Outcome trained = run(resume_words(path, settings, config.string()), directory, bare);
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(has(trained.err, "completed after step 3"));
  CHECK(!has(trained.err, "\033"));
  REQUIRE(run(resume_words(path, settings, config.string()), directory, bare).code == 0);
  const auto resolved = nlohmann::json::parse(get(path / "config.resolved.json"));
  CHECK(resolved.at("data").at("text").at(0) == text.string());
  CHECK(get(path / "latest") == "ckpt/step-000000003\n");

  const Outcome sampled =
      run({"sample", "--run", path.string(), "--prompt", "The", "--max-new-tokens", "5"}, directory, bare);
  CHECK(sampled.code == 0);
  CHECK(sampled.out.starts_with("The"));
  const Outcome evaluated =
      run({"eval", "--run", path.string(), "--text", text.string(), "--json"}, directory, bare);
  CHECK(evaluated.code == 0);
  const Outcome drawn = run({"curves", path.string()}, directory, bare);
  CHECK(drawn.code == 0);
  for (const char c : drawn.out) CHECK((c == '\n' || (c >= ' ' && c < 127)));

  // Relative paths and no variable at all, from that folder.
  bare.environment = {"LANG", "LC_ALL", "HOME", "TERM", "PATH", "USER"};
  bare.folder = odd.string();
  const std::string name = path.filename().string();
  CHECK(run({"train", "--resume", name, "--set", "run.max_steps=4"}, directory, bare).code == 0);
  CHECK(run({"sample", "--run", name, "--max-new-tokens", "5"}, directory, bare).code == 0);
}

TEST_CASE("whoever reads may go away: data ends quietly, training goes on to the same end") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  REQUIRE(run(resume_words(whole, short_run), directory).code == 0);
  const Outcome trained = run_head(resume_words(path, short_run), directory, 1, true);
  CHECK(trained.code == 0);
  check_same_run(path, whole);
  CHECK(has(get(path / "log.txt"), "completed after step 3"));

  const std::string at = path.string();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"curves", at},
                                                {"sample", "--run", at, "--max-new-tokens", "100000"},
                                                {"eval", "--run", at, "--json"},
                                                {"config", "fields"},
                                                {"config", "schema"},
                                                {"train", "--help"}}) {
    const Outcome o = run_head(words, directory, 1);
    CAPTURE(words, o.err);
    CHECK(o.code == 0);
    CHECK(!has(o.err, "error"));
  }
}

TEST_CASE("without stdout and stderr training works, and data that has nowhere to go is exit 4") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "run", whole = directory / "whole";
  REQUIRE(run(resume_words(whole, short_run), directory).code == 0);
  Start mute;
  mute.out = mute.err = Start::closed;
  CHECK(run(resume_words(path, short_run), directory, mute).code == 0);
  check_same_run(path, whole);
  const std::string at = path.string();
  const std::vector<std::vector<std::string>> writers = {
      {"curves", at},        {"sample", "--run", at, "--max-new-tokens", "10"},
      {"eval", "--run", at}, {"config", "fields"},
      {"config", "show"},    {"train", "--help"},
      {"--version"},         {}};
  for (const auto& words : writers) {
    CAPTURE(words);
    CHECK(run(words, directory, mute).code == 4);
  }
  CHECK(run({"train", "--nonsense"}, directory, mute).code == 2);
  CHECK(run({"train", "--resume", "nowhere"}, directory, mute).code == 7);
  CHECK(!fs::exists("nowhere"));

  Start no_out, full;
  no_out.out = Start::closed;
  full.out = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  for (const auto& words : writers) {
    for (const Start& start : {no_out, full}) {
      const Outcome o = run(words, directory, start);
      CAPTURE(words, o.err);
      CHECK(o.code == 4);
      CHECK(has(o.err, "error[io]: cannot write to standard output: "));
    }
  }
  ::close(*full.out);
}
