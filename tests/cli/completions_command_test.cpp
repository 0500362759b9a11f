#include <sstream>

#include "cli/runs.hpp"

using namespace quern::test;

namespace {

const TemporaryDirectory output;

std::vector<std::string> completed(std::vector<std::string> words, const Start& start = {}) {
  words.insert(words.begin(), {"completions", "words", "--"});
  std::istringstream lines(run(words, output, start).out);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) found.push_back(line.substr(0, line.find('\t')));
  return found;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("words: commands, options, settings and their values, runs") {
  CHECK(completed({"tra"}) == Words{"train", "translate"});
  CHECK(completed({"config", "sh"}) == Words{"show"});
  CHECK(completed({"train", "--res"}) == Words{"--resume"});
  CHECK(completed({"train", "--set", "model.d_"}) == Words{"model.d_model=", "model.d_ff="});
  CHECK(completed({"train", "--set", "model.norm=l"}) == Words{"model.norm=layernorm"});
  CHECK(completed({"train", "--set", "model.bias=t"}) == Words{"model.bias=true"});
  CHECK(completed({"curves", "--metric", "gr"}) == Words{"grad_norm"});
  CHECK(completed({"train", "--config", ""}) == Words{":files"});
  CHECK(completed({"train", "--config", "x.json", "--verb"}) == Words{"--verbose"});
  CHECK(completed({"sample", "--top-k", "1"}).empty());
  CHECK(completed({}).size() > 10);

  const TemporaryDirectory here;
  std::filesystem::create_directory(here / "runs");
  REQUIRE(run({"train", "--quiet", "--config", configs + "tiny.json", "--set", "run.max_steps=1", "--run-dir",
               (here / "runs" / "one").string()},
              output)
              .code == 0);
  const Start inside{.folder = here.path().string()};
  CHECK(completed({"sample", "--run", "runs/"}, inside) == Words{"runs/one", "runs/latest", ":files"});
  CHECK(completed({"curves", "runs/o"}, inside) == Words{"runs/one", ":files"});
}

TEST_CASE("bash completes words that it cuts at equal signs") {
  const TemporaryDirectory place;
  put(place / "try.sh",
      "PATH=$(dirname '" QUERN_PROGRAM
      "'):$PATH\n"
      "source <(quern completions bash)\n"
      "try() { COMP_WORDS=(quern \"$@\"); COMP_CWORD=$#; _quern; echo \"${COMPREPLY[*]}\"; }\n"
      "try tra\n"
      "try train --set model.norm = l\n"
      "try train --set model.norm =\n"
      "try train --set model.n_l\n");
  const std::string command =
      "bash " + (place / "try.sh").string() + " > " + (place / "out").string() + " 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(get(place / "out") == "train translate\nlayernorm\nlayernorm rmsnorm\nmodel.n_layers=\n");
}

TEST_CASE("the manual page names every command and every field, and escapes what roff would obey") {
  const std::string page = run({"manual"}, output).out;
  for (const char* part : {".TH QUERN 1", "quern train", "quern config init", "\\-\\-resume", "model.d_model",
                           "optim.learning_rate", ".SH EXIT STATUS", "QUERN_ISA"})
    CHECK(has(page, part));
}

TEST_CASE("config init writes a config that is valid, complete and never over another file") {
  const TemporaryDirectory place;
  const std::string file = (place / "my.json").string();
  const Outcome made =
      run({"config", "init", file, "--set", "model.d_model=96", "--set", "model.n_heads=3"}, output);
  CHECK(made.code == 0);
  CHECK(has(get(file), "// Peak learning rate. (number from 0"));
  const Outcome shown = run({"config", "show", "--config", file, "--json"}, output);
  CHECK(shown.code == 0);
  CHECK(nlohmann::json::parse(shown.out).at("model").at("d_model") == 96);
  const std::string before = get(file);
  const Outcome refused = run({"config", "init", file}, output);
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "there already"));
  CHECK(get(file) == before);
}
