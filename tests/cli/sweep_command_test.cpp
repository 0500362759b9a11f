#include "cli/runs.hpp"

using namespace quern::test;

namespace {

std::vector<std::string> words(const std::filesystem::path& directory, const std::string& grid) {
  return {"sweep", "--config", configs + "tiny.json", "--set", "run.max_steps=4", "--grid", grid, "--seeds",
          "2",     "--dir",    directory.string(),    "--json"};
}

}  // namespace

TEST_CASE("sweep trains every setting with every seed, and again only what is missing") {
  const TemporaryDirectory output;
  const auto place = output / "sweep";
  const Outcome first = run(words(place, "optim.learning_rate=1e-2,1e-3"), output);
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  const auto found = nlohmann::json::parse(first.out);
  REQUIRE(found.at("runs").size() == 4);
  REQUIRE(found.at("settings").size() == 2);
  CHECK(found["settings"][0].at("mean_best_val") <= found["settings"][1].at("mean_best_val"));
  for (const auto& each : found["runs"]) CHECK(each.at("status") == "completed");
  const auto config =
      nlohmann::json::parse(get(place / "learning_rate=1e-3,seed=2" / "config.resolved.json"));
  CHECK(config.at("optim").at("learning_rate") == 1e-3);
  CHECK(config.at("run").at("seed") == 2);
  CHECK(has(first.err, "[4/4]"));
  CHECK(has(get(place / "report.html"), "learning_rate=1e-3,seed=2"));

  std::filesystem::remove_all(place / "learning_rate=1e-2,seed=1");
  const std::string untouched = get(place / "learning_rate=1e-3,seed=2" / "metrics.jsonl");
  const Outcome again = run(words(place, "optim.learning_rate=1e-2,1e-3"), output);
  CHECK(again.code == 0);
  CHECK(has(again.err, "3 of 4 runs are complete already"));
  CHECK(nlohmann::json::parse(again.out).at("settings") == found["settings"]);
  CHECK(get(place / "learning_rate=1e-3,seed=2" / "metrics.jsonl") == untouched);
}

TEST_CASE("a sweep tells mistakes of any combination before the first run, and failures behind the others") {
  const TemporaryDirectory output;
  const Outcome wrong = run(words(output / "sweep", "model.d_model=64,65"), output);
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "not divisible by model.n_heads"));
  CHECK(has(wrong.err, "--> --grid model.d_model=64,65\n"));
  const Outcome misspelt = run(words(output / "sweep", "optim.lerning_rate=1e-3,3e-4"), output);
  CHECK(misspelt.code == 2);
  CHECK(misspelt.err ==
        "error[config]: optim.lerning_rate: unknown key\n"
        "  --> --grid optim.lerning_rate=1e-3,3e-4\n"
        "  help: did you mean \"optim.learning_rate\"?\n");
  CHECK_FALSE(std::filesystem::exists(output / "sweep"));

  const Outcome diverges = run(words(output / "wild", "optim.learning_rate=1e6,1e-3"), output);
  CHECK(diverges.code == 5);
  CHECK(has(diverges.err, "not finite"));
  const auto found = nlohmann::json::parse(diverges.out);
  CHECK(found["settings"][0].at("setting") == "learning_rate=1e-3");
}

TEST_CASE("losses of another config are no results: a sweep refuses a folder that holds them, and a run") {
  const TemporaryDirectory output;
  const auto place = output / "sweep";
  auto line = words(place, "optim.learning_rate=1e-3");
  REQUIRE(run(line, output).code == 0);
  const std::string page = get(place / "report.html");
  line.insert(line.begin() + 5, {"--set", "model.d_model=64"});
  const Outcome other = run(line, output);
  CAPTURE(other.err);
  CHECK(other.code == 7);
  CHECK(has(other.err, "model.d_model: 32 in the run, 64 asked for"));
  CHECK(has(other.err, "learning_rate=1e-3,seed=1"));
  CHECK(has(other.err, "--dir DIR"));

  auto longer = words(place, "optim.learning_rate=1e-3");
  longer[4] = "run.max_steps=6";
  const Outcome more = run(longer, output);
  CAPTURE(more.err);
  CHECK(more.code == 0);
  CHECK(!has(more.err, "complete already"));
  CHECK(nlohmann::json::parse(more.out)["runs"][0].at("step") == 6);

  const auto inside = place / "learning_rate=1e-3,seed=1";
  const std::string before = get(inside / "report.html");
  const Outcome within = run(words(inside, "optim.learning_rate=1e-3"), output);
  CHECK(within.code == 7);
  CHECK(has(within.err, "this is a run"));
  CHECK(get(inside / "report.html") == before);
}

TEST_CASE(
    "the table of a sweep has a column for each field with several values, and the losses of complete runs") {
  const TemporaryDirectory output;
  auto line = words(output / "sweep", "optim.learning_rate=1e6,1e-3");
  line.pop_back();
  line.insert(line.end(),
              {"--grid", "optim.grad_clip=0", "--grid", "optim.eps=1e-30,1e-8", "--set", "run.max_steps=20"});
  const Outcome o = run(line, output);
  CAPTURE(o.out, o.err);
  CHECK(o.code == 5);
  CHECK(has(o.out, "learning_rate  eps    complete  val loss"));
  CHECK(has(o.out, "1e6            1e-8        0/2         -"));
  CHECK(has(o.out, "1e-3           1e-8        2/2"));
  CHECK(!has(o.out, "grad_clip"));
}

TEST_CASE("an interrupted sweep stops its runs, which save, and goes on from there") {
  const TemporaryDirectory output;
  auto line = words(output / "sweep", "optim.learning_rate=1e-3");
  line[4] = "run.max_steps=2000";
  Program program(line, output);
  const auto metrics = output / "sweep" / "learning_rate=1e-3,seed=1" / "metrics.jsonl";
  REQUIRE(wait_until(program, [&] { return has(get(metrics), "\"step\":20,"); }));
  ::kill(program.pid(), SIGINT);
  const Outcome stopped = program.wait();
  CHECK(stopped.code == 130);
  CHECK(has(stopped.err, "the same command goes on"));
  CHECK(has(get(metrics), "\"interrupted\""));
}
