// quern predict and quern translate: lines in, lines out
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "command.hpp"
#include "quern/base/parallel.hpp"
#include "quern/train/load.hpp"
#include "quern/train/predict.hpp"
#include "quern/train/session.hpp"
#include "quern/train/signals.hpp"
#include "quern/watch/progress.hpp"

namespace quern::cli {

namespace {

struct PredictOptions {
  std::string run, checkpoint = "best", input;
  BeamOptions beam;
  std::int64_t n_best = 1;
  bool translates = false, json = false;
};

/// Lines longer than this are no lines.
constexpr std::size_t max_line_bytes = 1 << 20;

/// Lines of a stream, of which no more is read than a line may have.
class LineReader {
 public:
  LineReader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

  /// The next line without its end; false behind the last one.
  bool next(std::string& line) {
    in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    const std::streamsize read = in_.gcount();
    if (in_.bad()) throw Error(ErrorKind::io, "cannot read on", "", name_);
    if (in_.fail() && read == 0) return false;
    ++number_;
    if (in_.fail()) throw Error(ErrorKind::file, "the line has more than 1 MiB", "a text of lines", place());
    const std::streamsize newline = in_.eof() ? 0 : 1;  // counted, but not stored
    line.assign(buffer_.data(), static_cast<std::size_t>(read - newline));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
  }
  std::int64_t number() const { return number_; }
  std::string place() const { return name_ + ":" + std::to_string(number_); }

 private:
  std::istream& in_;
  std::string name_;
  std::int64_t number_ = 0;
  std::vector<char> buffer_ = std::vector<char>(max_line_bytes + 1);  // getline ends it with a NUL
};

nlohmann::ordered_json json_of(const std::string& line, const Prediction& found) {
  nlohmann::ordered_json object = {{"input", line}};
  if (found.value) {
    object["value"] = *found.value;
  } else if (found.probability) {
    object["label"] = found.text;
    object["probability"] = *found.probability;
  } else if (!found.tags.empty()) {
    object["tags"] = found.tags;
  } else {
    object["text"] = found.text;
  }
  for (const Prediction::Candidate& candidate : found.answers)
    object["answers"].push_back({{"text", candidate.text},
                                 {"log_probability", candidate.log_probability},
                                 {"score", candidate.score}});
  return object;
}

/// The text of one line, or the best answers, a line each with their scores.
std::string text_of(const Prediction& found, std::int64_t n_best) {
  if (n_best == 1) return found.text + "\n";
  std::string text;
  for (const Prediction::Candidate& candidate : found.answers) {
    char score[40];
    std::snprintf(score, sizeof score, "%.4f\t", candidate.score);
    text += score + candidate.text + "\n";
  }
  return text;
}

void check_options(const PredictOptions& options, const Predictor& predictor) {
  if (options.translates && !predictor.answers())
    throw Error(ErrorKind::config, "this run's model writes no translations", "use quern predict");
  if (options.n_best > options.beam.beams)
    throw Error(ErrorKind::config,
                "--n-best: " + std::to_string(options.n_best) +
                    " answers need as many beams, and --beams is " + std::to_string(options.beam.beams),
                "--beams " + std::to_string(options.n_best));
}

int predict(const PredictOptions& options) {
  set_thread_count(default_threads());
  Files files;
  const LoadedRun loaded = load_run(files, run_or_latest(options.run), options.checkpoint);
  for (const std::string& warning : loaded.warnings) say("warning: " + warning);
  Predictor predictor(loaded, options.beam);
  check_options(options, predictor);
  std::ifstream file;
  if (!options.input.empty()) {
    files.open_read(options.input);  // says what is wrong with it
    file.open(options.input);
  }
  const Terminal terminal = inspect_terminal(1);
  ProgressLine progress(inspect_terminal(2), "line", 0);
  const SignalGuard signals;
  LineReader lines(options.input.empty() ? std::cin : file,
                   options.input.empty() ? "standard input" : options.input);
  for (std::string line; lines.next(line);) {
    const Source source = {lines.place(), ErrorKind::file};
    if (!terminal.tty) progress.update(lines.number());  // else the answers show how far it has come
    auto found = predictor.predict(line, source, [] { return stop_signal() != 0; });
    if (!found || stop_signal() != 0) return 128 + stop_signal();
    if (static_cast<std::int64_t>(found->answers.size()) > options.n_best)
      found->answers.resize(static_cast<std::size_t>(options.n_best));
    if (options.json) {
      write_json(json_of(line, *found));
    } else {
      const std::string text = text_of(*found, options.n_best);
      write_out(terminal.tty ? harmless(text, !terminal.utf8) : text);
    }
  }
  return 0;
}

CLI::App* add(CLI::App& app, const std::shared_ptr<PredictOptions>& options, const std::string& name,
              const std::string& about, const std::vector<std::string>& examples) {
  CLI::App* command = add_command(app, name, about, examples, [options] { return predict(*options); });
  add_run_option(*command, options->run);
  add_text(*command, "--checkpoint", options->checkpoint, "WHICH", "best, last, or a step");
  command->add_option("FILE", options->input, "Lines to read; standard input without it")->type_name("");
  add_number(*command, "--max-new-tokens", options->beam.max_new_tokens, FieldRange(),
             "Most tokens of an answer");
  command->add_flag("--json", options->json, "Print one JSON object a line");
  return command;
}

}  // namespace

void add_predict(CLI::App& app) {
  add(app, std::make_shared<PredictOptions>(), "predict", "Say labels, tags, numbers or answers for lines",
      {"echo 201021 | quern predict --run runs/sort", "quern predict --run runs/reviews lines.txt --json"});
}

void add_translate(CLI::App& app) {
  const auto options = std::make_shared<PredictOptions>();
  options->translates = true;
  CLI::App* command = add(app, options, "translate", "Translate lines, greedily or by beam search",
                          {"echo 'May 3, 1994' | quern translate --run runs/dates",
                           "quern translate --run runs/latest source.txt --beams 4 --n-best 2"});
  add_number(*command, "--beams", options->beam.beams, FieldRange(),
             "Hypotheses that are followed; 1: greedy");
  add_number(*command, "--length-penalty", options->beam.length_penalty, FieldRange(),
             "Above 0 long answers are not at a disadvantage");
  add_number(*command, "--n-best", options->n_best, at_least(1), "Answers for each line, with their scores");
}

}  // namespace quern::cli
