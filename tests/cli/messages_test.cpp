// What a user reads on stderr after a mistake, word for word.
#include <sys/file.h>
#include <sys/stat.h>

#include <fstream>

#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

/// A case of tests/fixtures/messages.txt: a command line, what it prints on stderr, its exit code.
struct Case {
  int line = 0;
  std::vector<std::string> words;
  std::string err;
  int code = -1;
};

/// The words of a command line; single quotes keep blanks.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, within = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!within) words.emplace_back();
      within = true;
    } else if (c == ' ' && !quoted) {
      within = false;
    } else {
      if (!within) words.emplace_back();
      within = true;
      words.back() += c;
    }
  }
  return words;
}

std::vector<Case> cases() {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/fixtures/messages.txt");
  REQUIRE(file.good());
  std::vector<Case> found;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.starts_with("$ quern ")) {
      found.push_back({number, words_of(line.substr(8)), "", -1});
    } else if (line.starts_with("exit ")) {
      found.back().code = std::stoi(line.substr(5));
    } else if (!found.empty() && found.back().code < 0) {
      found.back().err += line + "\n";
    }
  }
  return found;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The folder in which the command lines are run: texts, configs and runs, good and bad.
struct Folder {
  TemporaryDirectory directory, output;
  fs::path at = directory.path();
  int lock = -1;

  Folder() {
    write_texts();
    write_configs();
    train("good.json", "run");
    train("bits.json", "bits");
    train("good.json", "low_rank",
          {"model.architecture=encoder", "model.attention=low_rank", "model.rank=2", "model.position=none",
           "data.eval_stride=0"});
    write_bad_runs();
  }
  ~Folder() { ::close(lock); }

  Outcome quern(const std::vector<std::string>& words) {
    Start here;
    here.folder = at.string();
    Outcome o = run(words, output, here);
    o.err = replaced(o.err, at.string(), "DIR");
    o.err = replaced(o.err, "process " + std::to_string(::getpid()), "process PID");
    return o;
  }

 private:
  void train(const std::string& config, const std::string& name, const std::vector<std::string>& sets = {}) {
    Start here;
    here.folder = at.string();
    const Outcome o =
        run(with_settings({"train", "-q", "--config", config, "--run-dir", name}, sets), output, here);
    CAPTURE(name, o.err);
    REQUIRE(o.code == 0);
  }

  void write_texts() {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "Number " + std::to_string(i * 37 % 101) + " is a number.\n";
    put(at / "text.txt", text);
    put(at / "other.txt", text + "Number 7 is a number.\n");
    put(at / "empty.txt", "");
    put(at / "short.txt", "nine char");
    put(at / "twenty.txt", "twenty bytes of text");
    put(at / "huge.tsv", "one\t1\ntwo\t1e300\n");
    put(at / "latin1.txt", text + "caf\xe9\n");
    fs::create_directory(at / "folder");
    put(at / "folder/notes.txt", "mine\n");
    put(at / "file", "");
    REQUIRE(::mkfifo((at / "pipe").c_str(), 0600) == 0);
  }

  void write_configs() {
    put(at / "good.json",
        "{\"model\": {\"d_model\": 8, \"n_layers\": 1, \"n_heads\": 1, \"context_length\": 16},\n"
        " \"data\": {\"text\": \"text.txt\", \"tokenizer\": \"char\"},\n"
        " \"schedule\": {\"warmup_steps\": 0},\n"
        " \"run\": {\"max_steps\": 2, \"checkpoint_interval\": 1, \"batch_size\": 2}}\n");
    put(at / "bits.json",
        "{\"model\": {\"architecture\": \"encoder\", \"d_model\": 8, \"n_layers\": 1, \"n_heads\": 1, "
        "\"context_length\": 16},\n"
        " \"data\": {\"task\": \"parity\", \"eval_stride\": 0}, \"run\": {\"max_steps\": 0, \"batch_size\": "
        "2}}\n");
    put(at / "keys.json",
        "{\n  \"optim\": {\"lerning_rate\": 1},\n  \"run\": {\"batch_size\": 2.5, \"seed\": 1, \"seed\": "
        "2},\n"
        "  \"model\": {\"norm\": \"layrnorm\", \"d_model\": -4, \"n_heads\": null}\n}\n");
    put(at / "comma.json", "{\"run\": {\"max_steps\": 20,}}\n");
    put(at / "list.json", "[1, 2]\n");
    put(at / "nothing.json", "");
    put(at / "red-key.json", "{\"\\u001b[0mx\": 1}\n");
    put(at / "red-text.json", "{\"data\": {\"text\": \"\\u001b[31mmissing.txt\"}}\n");
    put(at / "tokens.json", "{\"type\": \"quern-char\", \"version\": 1, \"chars\": [\"b\", \"a\"]}\n");
  }

  void copy(const std::string& name) { fs::copy(at / "run", at / name, fs::copy_options::recursive); }

  void write_bad_runs() {
    const std::string last = "ckpt/step-000000002/";
    copy("damaged");
    std::string model = get(at / "run" / last / "model.safetensors");
    model.back() = static_cast<char>(model.back() ^ 1);
    put(at / "damaged" / last / "model.safetensors", model);
    copy("cut");
    put(at / "cut" / last / "optim.safetensors", "");
    copy("hollow");
    for (const char* step : {"step-000000001", "step-000000002"})
      fs::remove(at / "hollow/ckpt" / step / "manifest.json");
    copy("fresh");
    fs::remove_all(at / "fresh/ckpt");
    copy("changed");
    std::string config = get(at / "run/config.resolved.json");
    put(at / "changed/config.resolved.json", replaced(config, "text.txt", "other.txt"));
    copy("garbled");
    put(at / "garbled/metrics.jsonl", "{\"event\":\"step\"\n" + get(at / "run/metrics.jsonl"));
    copy("linked");
    fs::remove_all(at / "linked/ckpt");
    fs::create_directory_symlink("../run/ckpt", at / "linked/ckpt");
    copy("bare");
    fs::remove(at / "bare/tokenizer.json");
    copy("busy");
    put(at / "busy/lock", std::to_string(::getpid()) + "\n");
    lock = ::open((at / "busy/lock").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
  }
};

}  // namespace

TEST_CASE("every mistake of a user is told in these words") {
  Folder folder;
  const std::vector<Case> all = cases();
  CHECK(all.size() >= 60);
  for (const Case& each : all) {
    const Outcome o = folder.quern(each.words);
    CAPTURE(each.line, each.words);
    CHECK(o.err == each.err);
    CHECK(o.code == each.code);
    CHECK(o.out.empty());
  }
  CHECK(get(folder.at / "folder/notes.txt") == "mine\n");
  CHECK(fs::exists(folder.at / "run/ckpt/step-000000002"));
}
