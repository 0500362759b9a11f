// quern predict and quern translate, as a user runs them.
#include <sstream>

#include "cli/runs.hpp"

using namespace quern::test;

namespace {

struct Fixture {
  TemporaryDirectory directory, output;

  Fixture() {
    train("copy", {"model.architecture=encoder_decoder", "data.task=copy", "model.context_length=16"});
    train("parity", {"model.architecture=encoder", "data.task=parity", "model.context_length=16"});
    train("text", {});
  }

  void train(const std::string& name, const std::vector<std::string>& settings) {
    train_small(directory / name, settings, output);
  }

  Outcome quern(const std::string& command, const std::string& name, const std::string& lines,
                const std::vector<std::string>& more = {}) {
    put(directory / "lines.txt", lines);
    std::vector<std::string> words = {command, "--run", (directory / name).string(),
                                      (directory / "lines.txt").string()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, output);
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("lines in, lines out: answers, the best ones with scores, labels, and all of it as JSON") {
  Fixture f;
  const Outcome answers = f.quern("translate", "copy", "0123456789\r\n9876543210\n");
  CHECK(answers.code == 0);
  const auto texts = lines_of(answers.out);
  REQUIRE(texts.size() == 2);
  CHECK(f.quern("predict", "copy", "0123456789\n9876543210\n").out == answers.out);

  const Outcome best =
      f.quern("translate", "copy", "0123456789\n", {"--beams", "3", "--n-best", "2", "--json"});
  const auto json = nlohmann::json::parse(best.out);
  REQUIRE(json.at("answers").size() == 2);
  CHECK(json["text"] == json["answers"][0]["text"]);
  CHECK(json["answers"][0]["score"].get<double>() >= json["answers"][1]["score"].get<double>());
  CHECK(json["answers"][0]["log_probability"].get<double>() < 0);
  CHECK(
      lines_of(f.quern("translate", "copy", "0123456789\n", {"--beams", "3", "--n-best", "2"}).out).size() ==
      2);

  const auto label = nlohmann::json::parse(f.quern("predict", "parity", "1011\n", {"--json"}).out);
  CHECK((label.at("label") == "odd" || label["label"] == "even"));
  CHECK(label.at("probability").get<double>() >= 0.5);
}

TEST_CASE("an evaluation tells the task's metrics") {
  Fixture f;
  const auto of = [&](const std::string& name) {
    return nlohmann::json::parse(
        run({"eval", "--run", (f.directory / name).string(), "--json"}, f.output).out);
  };
  CHECK(of("copy").contains("exact_match"));
  CHECK(of("parity").contains("macro_f1"));
  CHECK(!of("text").contains("accuracy"));
  const auto seen = nlohmann::json::parse(
      run({"eval", "--run", (f.directory / "copy").string(), "--split", "train", "--json"}, f.output).out);
  CHECK(seen.at("split") == "train");
  CHECK(seen.at("tokens") == of("copy").at("tokens"));
  CHECK(seen.at("loss") != of("copy").at("loss"));
}

TEST_CASE("what cannot be answered is one clear message") {
  Fixture f;
  struct Case {
    Outcome outcome;
    int code;
    const char* says;
  };
  for (const Case& c : {
           Case{f.quern("translate", "copy", "0123456789\n01a\n"), 3, "lines.txt:2"},
           Case{f.quern("translate", "copy", "01234567890123456789\n"), 3, "the line has 20 tokens"},
           Case{f.quern("translate", "copy", "\n"), 3, "the line is empty"},
           Case{f.quern("translate", "parity", "1\n"), 2, "writes no translations"},
           Case{f.quern("predict", "text", "1\n"), 2, "use quern sample"},
           Case{f.quern("translate", "copy", "1\n", {"--n-best", "2"}), 2, "--beams 2"},
           Case{f.quern("translate", "copy", "1\n", {"--beams", "0"}), 2, "--beams"},
           Case{run({"predict", "--run", (f.directory / "copy").string(), "missing.txt"}, f.output), 3,
                "missing.txt"},
           Case{run({"sample", "--run", (f.directory / "copy").string()}, f.output), 2,
                "use quern translate"},
           Case{run({"attention", "--run", (f.directory / "parity").string(), "--prompt", "12"}, f.output), 2,
                "'2'"},
       }) {
    CAPTURE(c.says, c.outcome.err);
    CHECK(c.outcome.code == c.code);
    CHECK(has(c.outcome.err, c.says));
  }
}

TEST_CASE("a line without end is refused as soon as it is too long") {
  Fixture f;
  Start endless;
  endless.in = "/dev/zero";
  endless.address_space = rlim_t{1} << 30;  // were it read on, memory would end
  for (const auto& [command, name] : {std::pair{"predict", "parity"}, std::pair{"translate", "copy"}}) {
    const Outcome o = run({command, "--run", (f.directory / name).string()}, f.output, endless);
    CAPTURE(command, o.err);
    CHECK(o.code == 3);
    CHECK(has(o.err, "error[file]: the line has more than 1 MiB"));
    CHECK(has(o.err, "standard input:1"));
  }
  const std::string line(1 << 20, '1');  // not too long as a line, but for the model
  CHECK(has(f.quern("predict", "parity", "1011\n" + line + "\n").err, "1048577 tokens"));
  const Outcome longer = f.quern("predict", "parity", "1011\n1" + line + "\n");
  CHECK(has(longer.err, "the line has more than 1 MiB"));
  CHECK(has(longer.err, "lines.txt:2"));
  // What follows the last newline is a line too.
  CHECK(lines_of(f.quern("predict", "parity", "1011\n110").out).size() == 2);
  CHECK(f.quern("predict", "parity", "").out.empty());
}

TEST_CASE("a run with thousands of labels is evaluated, used and resumed") {
  TemporaryDirectory directory, output;
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "text\tlabel" + std::to_string(i) + "\n";
  // … and these make its config larger than a mebibyte.
  for (int i = 0; i < 2200; ++i) lines += "text\t" + std::to_string(i) + std::string(500, 'x') + "\n";
  put(directory / "data.tsv", lines);
  const std::string path = (directory / "run").string();
  train_small(path,
              {"model.architecture=encoder", "data.task=classification", "data.val_fraction=0",
               "data.text=" + (directory / "data.tsv").string(), "model.context_length=16"},
              output);
  put(directory / "lines.txt", "text\n");
  const Outcome said = run({"predict", "--run", path, (directory / "lines.txt").string()}, output);
  CAPTURE(said.err);
  CHECK(said.code == 0);
  const Outcome longer = run({"train", "-q", "--resume", path, "--set", "run.max_steps=3"}, output);
  CAPTURE(longer.err);
  CHECK(longer.code == 0);
  CHECK(run({"train", "-q", "--config", path + "/config.resolved.json", "--run-dir",
             (directory / "again").string()},
            output)
            .code == 0);
  CHECK(run({"report", path}, output).code == 0);
  CHECK(!has(get(directory / "run/report.html"), "bytes, more than the"));
}

TEST_CASE("an answer's attention is a row for each token it writes, a column for each it was asked") {
  Fixture f;
  const Outcome o = run(
      {"attention", "--run", (f.directory / "copy").string(), "--prompt", "0123456789", "--json"}, f.output);
  CAPTURE(o.err);
  const auto json = nlohmann::json::parse(o.out);
  CHECK(json.at("tokens").size() == 10);
  REQUIRE(json.at("maps").size() == 2);
  const auto& weights = json["maps"][0].at("weights");
  CHECK(weights.size() == json.at("answer").size());
  for (const auto& row : weights) {
    double sum = 0;
    for (const auto& w : row) sum += w.get<double>();
    CHECK(sum == Approx(1));
  }
}
