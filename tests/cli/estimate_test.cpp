// quern estimate, quern bench --profile, and training below a limit of memory.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "cli/runs.hpp"
#include "quern/watch/terminal.hpp"

using namespace quern::test;

namespace {

const std::string tiny = configs + "tiny.json";

}  // namespace

TEST_CASE("estimate tells parameters, memory and time, and keeps the machine's rates") {
  const TemporaryDirectory directory;
  const std::string cache = "XDG_CACHE_HOME=" + (directory / "cache").string();
  const Outcome o =
      Program({"estimate", "--config", tiny, "--json"}, directory, {.environment = {cache}}).wait();
  CAPTURE(o.out, o.err);
  REQUIRE(o.code == 0);
  const auto found = nlohmann::json::parse(o.out);
  CHECK(found.at("parameters") > 25000);
  CHECK(found.at("tokens_per_step") == 256);
  CHECK(found.at("ms") > 0);
  CHECK(found.at("seconds") > 0);
  const auto& memory = found.at("memory");
  std::int64_t sum = 0;
  for (const char* kind :
       {"weights", "gradients", "moments", "activations", "workspace", "libraries", "program"})
    sum += memory.at(kind).get<std::int64_t>();
  CHECK(memory.at("total") == sum);
  REQUIRE(std::distance(std::filesystem::directory_iterator(directory / "cache" / "quern"), {}) == 1);
  const auto kept = std::filesystem::directory_iterator(directory / "cache" / "quern")->path();

  // The second time the rates come from the file; a broken file is made again.
  auto rates = nlohmann::json::parse(get(kept));
  rates["gflops"] = 1e-3;
  put(kept, rates.dump());
  const Outcome slow =
      Program({"estimate", "--config", tiny, "--json"}, directory, {.environment = {cache}}).wait();
  CHECK(nlohmann::json::parse(slow.out).at("ms") > 1000);
  put(kept, "{");
  const Outcome again =
      Program({"estimate", "--config", tiny, "--json"}, directory, {.environment = {cache}}).wait();
  CHECK(again.code == 0);
  CHECK(nlohmann::json::parse(get(kept)).at("gflops") > 0.1);
}

TEST_CASE("estimate needs no place for its cache, and a config's mistakes are exit 2") {
  const TemporaryDirectory directory;
  const Outcome o =
      Program({"estimate", "--config", tiny}, directory, {.environment = {"HOME", "XDG_CACHE_HOME"}}).wait();
  CAPTURE(o.out, o.err);
  CHECK(o.code == 0);
  CHECK(o.out.find("decoder.blocks.0 to 1") != std::string::npos);
  CHECK(run({"estimate", "--config", tiny, "--set", "model.d_modle=3"}, directory).code == 2);
  const Outcome nowhere = Program({"estimate", "--config", tiny, "--set", "model.d_model=65536", "--set",
                                   "model.n_heads=256", "--set", "model.n_layers=1024"},
                                  directory, {.environment = {"XDG_CACHE_HOME=/dev/null/no"}})
                              .wait();
  CHECK(nowhere.code == 0);
}

TEST_CASE("bench --profile tells every operation of a step, in text and as JSON") {
  const TemporaryDirectory directory;
  const std::vector<std::string> line = {"bench", "--profile", "--config",
                                         tiny,    "--set",     "run.batch_size=64"};
  auto json = line;
  json.push_back("--json");
  const Outcome o = run(json, directory);
  CAPTURE(o.out, o.err);
  REQUIRE(o.code == 0);
  const auto found = nlohmann::json::parse(o.out);
  double sum = found.at("rest_ms").get<double>();
  for (const auto& row : found.at("operations")) sum += row.at("ms").get<double>();
  CHECK(sum == Approx(found.at("ms").get<double>()));
  CHECK(found.at("rest_ms").get<double>() >= 0);
  CHECK(std::count_if(found.at("operations").begin(), found.at("operations").end(), [](const auto& row) {
          return row.at("operation") == "linear" && row.at("calls") == 4;
        }) == 2);  // forward and backward
  const Outcome text = Program(line, directory, {.environment = {"LC_ALL=C"}}).wait();
  CHECK(text.code == 0);
  std::istringstream lines(text.out);
  for (std::string l; std::getline(lines, l);) CHECK(l.size() <= 80);
  CHECK(text.out.find("#") != std::string::npos);
  const Outcome utf8 = Program(line, directory, {.environment = {"LC_ALL=C.UTF-8"}}).wait();
  std::istringstream wide(utf8.out);
  for (std::string l; std::getline(wide, l);) CHECK(quern::display_width(l) <= 80);
  CHECK(utf8.out.find("█") != std::string::npos);
}

TEST_CASE("bench --profile takes one work or a config") {
  const TemporaryDirectory directory;
  for (const std::vector<std::string>& words : {std::vector<std::string>{"bench", "--profile"},
                                                {"bench", "--profile", "A", "B0"},
                                                {"bench", "--profile", "A", "--config", tiny},
                                                {"bench", "--profile", "decode"},
                                                {"bench", "--profile", "--kernels"},
                                                {"bench", "A", "--config", tiny},
                                                {"bench", "--profile", "Z"}}) {
    const Outcome o = run(words, directory);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(o.err.find("help:") != std::string::npos);
  }
}

#if !defined(__SANITIZE_ADDRESS__)

namespace {

/// Training as a shell runs it below a limit of its address space.
Outcome train_below(std::int64_t megabytes, const std::filesystem::path& run_dir,
                    const TemporaryDirectory& directory) {
  const std::string err = (directory / "limited.txt").string();
  const std::string line = "ulimit -v " + std::to_string(megabytes * 1024) + "; exec '" + QUERN_PROGRAM +
                           "' train --config '" + tiny + "' --run-dir '" + run_dir.string() +
                           "' --set run.max_steps=4 --set run.threads=2 --set run.eval_batches=2 2> '" + err +
                           "'";
  const int status = std::system(line.c_str());
  const bool by_signal = WIFSIGNALED(status);
  return {by_signal ? 128 + WTERMSIG(status) : WEXITSTATUS(status), by_signal, "", get(err)};
}

}  // namespace

TEST_CASE("below any limit of the address space training is refused or runs, and never dies half-way") {
  const TemporaryDirectory directory;
  int refused = 0, ran = 0;
  for (std::int64_t megabytes = 96; megabytes <= 352; megabytes += 16) {
    const auto run_dir = directory / ("run" + std::to_string(megabytes));
    const Outcome o = train_below(megabytes, run_dir, directory);
    CAPTURE(megabytes, o.code, o.err);
    if (o.code == 6) {
      CHECK_FALSE(std::filesystem::exists(run_dir / "metrics.jsonl"));
      CHECK(ran == 0);  // more memory never makes it worse
      ++refused;
    } else {
      CHECK(o.code == 0);
      ++ran;
    }
  }
  CHECK(refused > 0);
  CHECK(ran > 0);
}

TEST_CASE("what estimate says of memory is within 15 % of what training then holds, batches by tokens too") {
  const TemporaryDirectory directory;
  std::string pairs;
  for (int i = 0; i < 4000; ++i)  // both sides of all lengths to 45, each pair's of different ones
    pairs += std::string(static_cast<std::size_t>(i * 7 % 45 + 1), static_cast<char>('a' + i % 5)) + "\t" +
             std::string(static_cast<std::size_t>(i * 11 % 45 + 1), static_cast<char>('a' + i % 3)) + "\n";
  put(directory / "pairs.tsv", "source\ttarget\n" + pairs);
  const std::vector<std::vector<std::string>> cases = {
      {"run.max_steps=6"},
      {"model.norm=rmsnorm", "model.activation=swiglu", "model.position=rope", "run.max_steps=6"},
      {"data.task=translation", "data.eval_stride=0", "data.text=" + (directory / "pairs.tsv").string(),
       "model.architecture=encoder_decoder", "model.d_model=64", "model.n_layers=1",
       "model.context_length=48", "run.batch_tokens=12000", "run.max_steps=30"}};
  for (auto settings : cases) {
    const auto run_dir = directory / ("of" + settings.front());
    settings.insert(settings.end(), {"run.threads=2", "run.eval_batches=2"});
    const Outcome estimate = run(with_settings({"estimate", "--json"}, settings), directory);
    const Outcome trained =
        run(with_settings({"train", "-q", "--run-dir", run_dir.string()}, settings), directory);
    CAPTURE(settings.front(), estimate.err, trained.err);
    REQUIRE(estimate.code == 0);
    REQUIRE(trained.code == 0);
    const auto planned = nlohmann::json::parse(estimate.out).at("memory").at("total").get<double>();
    double held = 0;
    std::istringstream metrics(get(run_dir / "metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);)
      held = std::max(held, nlohmann::json::parse(line).value("rss", 0.0));
    CHECK(held / planned == Approx(1).margin(0.15));
  }
}
#endif
