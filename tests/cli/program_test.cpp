// The built program from outside: what CONTRACT-level scripts rely on.
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "cli/runs.hpp"

using namespace quern::test;
namespace fs = std::filesystem;

namespace {

/// Trains tiny.json with settings; the run is at directory / "run".
Outcome train(const TemporaryDirectory& directory, std::vector<std::string> settings = {},
              const std::string& config = "tiny.json") {
  return run(with_settings({"train", "--config", configs + config, "--run-dir", (directory / "run").string()},
                           settings),
             directory);
}

}  // namespace

TEST_CASE("eval beyond the training's context, where positions have no table") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings = {"run.max_steps=2", "schedule.warmup_steps=0",
                                             "run.eval_batches=1"};
  const auto eval = [&](const TemporaryDirectory& at, const std::string& length) {
    return run({"eval", "--run", (at / "run").string(), "--json", "--context-length", length}, at);
  };
  std::vector<std::string> rope = settings;
  rope.insert(rope.end(), {"model.position=rope", "model.norm=rmsnorm", "model.activation=swiglu"});
  REQUIRE(train(directory, rope).code == 0);
  const auto figures = [&](const std::string& length) {
    const Outcome o = eval(directory, length);
    REQUIRE(o.code == 0);
    return nlohmann::json::parse(o.out);
  };
  const auto near = figures("32"), far = figures("300");
  CHECK(far["context_length"] == 300);
  CHECK(far["tokens"] == near["tokens"]);
  CHECK(far["loss"] != near["loss"]);
  CHECK(std::abs(far["loss"].get<double>() - near["loss"].get<double>()) < 0.5);
  const Outcome too_long = eval(directory, "10000000");
  CHECK(too_long.code == 3);
  CHECK(has(too_long.err, "--context-length 10000000: one window needs 10000001 tokens"));
  CHECK(eval(directory, "0").code == 2);

  const TemporaryDirectory other;
  REQUIRE(train(other, settings).code == 0);
  CHECK(eval(other, "16").code == 0);
  const Outcome refused = eval(other, "33");
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "(model.position learned) are a table that ends at model.context_length (32)"));
}

TEST_CASE("train, eval, sample and curves of one run") {
  const TemporaryDirectory directory;
  const std::string at = (directory / "run").string();
  const Outcome trained = train(directory);
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.out.empty());
  CHECK(has(trained.err, "2 threads") + has(trained.err, "1 thread") > 0);
  CHECK(has(trained.err, "completed after step 50"));
  for (const char* file :
       {"config.json", "config.resolved.json", "env.json", "metrics.jsonl", "tokenizer.json", "log.txt",
        "latest", "lock", "ckpt/step-000000050/model.safetensors", "ckpt/step-000000050/optim.safetensors",
        "ckpt/step-000000050/state.json", "ckpt/step-000000050/manifest.json"})
    CHECK(fs::exists(directory / "run" / file));

  const Outcome evaluated = run({"eval", "--run", at, "--json"}, directory);
  REQUIRE(evaluated.code == 0);
  const auto figures = nlohmann::json::parse(evaluated.out);
  CHECK(figures.at("loss").get<double>() < 3.6);
  CHECK(figures.at("perplexity").get<double>() == Approx(std::exp(figures.at("loss").get<double>())));
  CHECK(figures.at("bits_per_byte").get<double>() ==
        Approx(figures.at("loss").get<double>() / std::log(2.0)));
  const std::string metrics = get(directory / "run/metrics.jsonl");
  const auto start = nlohmann::json::parse(metrics.substr(0, metrics.find('\n')));
  CHECK(figures.at("tokens").get<int>() == start.at("val_tokens").get<int>() - 1);

  const std::vector<std::string> sampling = {"sample",           "--run", at, "--prompt", "The",
                                             "--max-new-tokens", "90"};
  const Outcome sampled = run(sampling, directory);
  REQUIRE(sampled.code == 0);
  CHECK(sampled.out.rfind("The", 0) == 0);
  CHECK(sampled.out.size() >= 93);
  CHECK(run(sampling, directory).out == sampled.out);

  const Outcome curves = run({"curves", at, "--width", "72"}, directory);
  REQUIRE(curves.code == 0);
  CHECK(has(curves.out, "loss (nats per token)"));
  CHECK(!has(curves.out, "\033"));
}

TEST_CASE("train --json writes the events to stdout; --verbose says what differs from the defaults") {
  const TemporaryDirectory directory;
  const Outcome o = run({"train", "--config", configs + "tiny.json", "--set", "run.max_steps=3", "--run-dir",
                         (directory / "run").string(), "--json", "--verbose"},
                        directory);
  REQUIRE(o.code == 0);
  const auto events = [](const std::string& lines) {  // each is written at a time of its own
    return std::regex_replace(lines, std::regex("\"time\":[0-9.]+"), "");
  };
  CHECK(events(o.out) == events(get(directory / "run/metrics.jsonl")));
  CHECK(has(o.err, "run.max_steps = 3 (default "));
  CHECK(has(o.err, "ISA level"));
  const Outcome both = run({"train", "--quiet", "--verbose"}, directory);
  CHECK(both.code == 2);
}

TEST_CASE("a prompt's unknown character is named with its place and the tokenizer") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, {"run.max_steps=1"}).code == 0);
  const Outcome o =
      run({"sample", "--run", (directory / "run").string(), "--prompt", "The \u00e9"}, directory);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(has(o.err, "error[config]"));
  CHECK(has(o.err, "U+00E9"));
  CHECK(has(o.err, "--prompt"));
  CHECK(has(o.err, "char"));
}

TEST_CASE("texts that cannot be trained on: one error, exit 3, within a second") {
  const TemporaryDirectory directory;
  put(directory / "empty.txt", "");
  put(directory / "twenty.txt", "twenty bytes of text");
  put(directory / "one-short.txt", std::string(32, 'a'));  // T bytes: one token too few for a window
  fs::create_directory(directory / "directory.txt");
  const struct {
    std::string file, fraction, says;
  } cases[] = {{"missing.txt", "0.1", "missing.txt"},
               {"empty.txt", "0.1", "empty"},
               {"twenty.txt", "0", "33"},
               {"one-short.txt", "0", "33"},
               {"directory.txt", "0.1", "directory"}};
  for (const auto& c : cases) {
    const Outcome o =
        train(directory, {"data.text=" + (directory / c.file).string(), "data.val_fraction=" + c.fraction});
    CAPTURE(c.file, o.err);
    CHECK(o.code == 3);
    CHECK(has(o.err, "error[file]"));
    CHECK(has(o.err, c.says));
    CHECK(!fs::exists(directory / "run"));
  }
}

TEST_CASE("a validation split without a window is said at once") {
  const TemporaryDirectory directory;
  put(directory / "short.txt", std::string(200, 'a') + "b");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = train(directory, {"data.text=" + (directory / "short.txt").string()});
  CHECK(o.code == 3);
  CHECK(has(o.err, "validation"));
  CHECK(has(o.err, "help:"));
  // Not a figure of speed: a freeze is what this is about.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("all mistakes of a config at once, with their places, exit 2") {
  const TemporaryDirectory directory;
  put(directory / "bad.json",
      "{\n  \"optim\": {\"lerning_rate\": 1},\n  \"run\": {\"batch_size\": 2.5}\n}\n");
  const Outcome o = run({"train", "--config", (directory / "bad.json").string()}, directory);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(has(o.err, "error[config]: optim.lerning_rate: unknown key"));
  CHECK(has(o.err, "bad.json:2:13"));
  CHECK(has(o.err, "learning_rate"));
  CHECK(has(o.err, "run.batch_size"));
  CHECK(has(o.err, "bad.json:3:25"));
}

TEST_CASE("config show prints nothing that a terminal would obey, and what it prints is a config") {
  const TemporaryDirectory directory;
  const std::string about = "a\x1B[2J b\xC2\x9B c\xE2\x80\xAE d\xE2\x80\xA8 e\x7F",
                    safe = R"("a\u001b[2J b\u009b c\u202e d\u2028 e\u007f")";
  const auto path = directory / "c\xFF\xE2\x80\xAE.json";
  put(path, nlohmann::json{{"about", about}}.dump());
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--origin"}, {"--json"}, {"--origin", "--json"}}) {
    std::vector<std::string> words = {"config", "show", "--config", path.string()};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words, directory);
    CAPTURE(more, o.err, o.out.substr(0, 200));
    CHECK(o.code == 0);
    CHECK(has(o.out, safe));
    for (const char* control : {"\x1B", "\xC2\x9B", "\xE2\x80\xAE", "\xE2\x80\xA8", "\x7F", "\xFF"})
      CHECK(!has(o.out, control));
    if (more != std::vector<std::string>{"--json"}) continue;
    CHECK(nlohmann::json::parse(o.out).at("about") == about);
    put(directory / "again.json", o.out);
    CHECK(run({"config", "show", "--json", "--config", (directory / "again.json").string()}, directory).out ==
          o.out);
  }
}

TEST_CASE("a folder whose name is not UTF-8 is told, and no bug") {
  const TemporaryDirectory directory;
  const auto odd = directory / "\xFFodd";
  std::filesystem::create_directory(odd);
  put(odd / "text.txt", std::string(5000, 'a') + "b");
  Start there;
  there.folder = odd.string();
  const Outcome o =
      run({"train", "-q", "--set", "data.text=text.txt", "--run-dir", (directory / "run").string()},
          directory, there);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(has(o.err, "the path is not UTF-8"));
}

TEST_CASE("usage mistakes are exit 2 with a suggestion") {
  const TemporaryDirectory directory;
  const Outcome command = run({"trian"}, directory);
  CHECK(command.code == 2);
  CHECK(has(command.err, "train"));
  const Outcome flag = run({"train", "--confg", "x"}, directory);
  CHECK(flag.code == 2);
  CHECK(has(flag.err, "--config"));
  CHECK(run({"eval", "--run", "nowhere"}, directory).code == 7);
  CHECK(run({"bench", "Z"}, directory).code == 2);
  CHECK(run({"train", "--resume", ""}, directory).code == 2);
  CHECK(run({"train", "--run-dir", ""}, directory).code == 2);
}

TEST_CASE("help and version go to stdout") {
  const TemporaryDirectory directory;
  const Outcome help = run({"--help"}, directory);
  CHECK(help.code == 0);
  for (const char* word :
       {"train", "sample", "eval", "curves", "runs", "config", "inspect", "attention", "bench", "Exit codes"})
    CHECK(has(help.out, word));
  const Outcome version = run({"--version"}, directory);
  CHECK(version.code == 0);
  for (const char* word : {"quern 0.1.0", "commit", "oneDNN", "ISA level", "thread"})
    CHECK(has(version.out, word));
}

TEST_CASE("help pages fit into 80 columns, but for examples, which can be copied whole") {
  const TemporaryDirectory directory;
  for (const std::string command :
       {"", "train", "sample", "predict", "translate", "eval", "curves", "runs", "sweep", "config", "inspect",
        "attention", "bench", "estimate", "doctor", "completions", "manual"}) {
    std::istringstream lines(run(command.empty() ? std::vector<std::string>{"--help"}
                                                 : std::vector{command, std::string("--help")},
                                 directory)
                                 .out);
    bool examples = false;
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      if (!line.starts_with(' ')) examples = line == "Examples:";
      CAPTURE(command, line);
      CHECK((examples || line.size() <= 80));
    }
    CHECK(count > 5);
  }
}

TEST_CASE("numbers that are not finite: exit 5 before the update") {
  const TemporaryDirectory directory;
  const Outcome o = train(directory, {"optim.learning_rate=1e6", "optim.grad_clip=0", "run.max_steps=1000",
                                      "schedule.kind=constant", "run.checkpoint_interval=1"});
  CAPTURE(o.err);
  CHECK(o.code == 5);
  CHECK(has(o.err, "error[diverged]"));
  CHECK(has(o.err, "not finite"));
  // The last checkpoint before it is whole: it loads, whatever its enormous weights then say.
  const int code =
      run({"sample", "--run", (directory / "run").string(), "--checkpoint", "last", "--max-new-tokens", "1"},
          directory)
          .code;
  CHECK((code == 0 || code == 5));
}

TEST_CASE("a file that may not grow further is an error with exit 4, and the run goes on once it may") {
  const TemporaryDirectory directory, whole;
  const std::vector<std::string> words = {
      "train",    "--config", configs + "tiny.json", "--run-dir", (directory / "run").string(),
      "--resume", "auto"};
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small { 60'000, before.rlim_max };  // model.safetensors takes about 115,000 bytes
  setrlimit(RLIMIT_FSIZE, &small);
  const Outcome limited = run(words, directory);
  setrlimit(RLIMIT_FSIZE, &before);
  CAPTURE(limited.err);
  CHECK(limited.code == 4);
  CHECK(has(limited.err, "error[io]"));
  REQUIRE(run(words, directory).code == 0);
  REQUIRE(train(whole).code == 0);
  const std::string model = "ckpt/step-000000050/model.safetensors";
  CHECK(get(directory / "run" / model) == get(whole / "run" / model));
}

TEST_CASE("a complete run is told how to go on, and a longer one at which rate its new steps are trained") {
  const TemporaryDirectory directory;
  const std::string path = (directory / "run").string();
  REQUIRE(run({"train", "--quiet", "--config", configs + "tiny.json", "--set", "run.max_steps=4", "--set",
               "schedule.min_learning_rate=1e-4", "--run-dir", path},
              directory)
              .code == 0);
  const Outcome done = run({"train", "--resume", path}, directory);
  CHECK(done.code == 0);
  CHECK(has(done.err, "all its steps are done; more of them: --set run.max_steps=N\n"));
  const Outcome longer = run({"train", "--quiet", "--resume", path, "--set", "run.max_steps=6"}, directory);
  CHECK(longer.code == 0);
  CHECK(has(longer.err, "the schedule ends at step 4"));
  CHECK(has(longer.err, "the learning rate 1e-4"));
}

TEST_CASE("threads do not change what our kernels compute; the program obeys run.threads") {
  const TemporaryDirectory one, two;
  REQUIRE(train(one, {"run.threads=1"}).code == 0);
  const Outcome o = train(two, {"run.threads=2"});
  CHECK(has(o.err, "on 2 threads"));
  const auto loss = [](const TemporaryDirectory& at) {
    return nlohmann::json::parse(run({"eval", "--run", (at / "run").string(), "--json"}, at).out)
        .at("loss")
        .get<double>();
  };
  // The products are oneDNN's, which may add in another order.
  CHECK(loss(one) == Approx(loss(two)).epsilon(1e-4));
}

TEST_CASE("every shipped config on the embedded corpus makes a step") {
  for (const char* config : {"toy.json", "paper-base.json", "tiny.json"}) {
    const TemporaryDirectory directory;
    const Outcome o = train(
        directory, {"run.max_steps=1", "schedule.warmup_steps=0", "run.eval_batches=1", "run.batch_size=2"},
        config);
    CAPTURE(config, o.err);
    CHECK(o.code == 0);
  }
}
