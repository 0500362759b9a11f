// quern train
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "command.hpp"
#include "quern/base/cpu.hpp"
#include "quern/base/process.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/session.hpp"
#include "quern/train/signals.hpp"
#include "quern/watch/console.hpp"
#include "quern/watch/curves.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/jsonl.hpp"
#include "quern/watch/report.hpp"
#include "quern/watch/sample_files.hpp"
#include "quern/watch/tensorboard.hpp"
#include "version.hpp"

namespace quern::cli {

namespace {

struct TrainOptions : ConfigOptions {
  std::string run_dir, resume, colour = "auto";
  bool overwrite = false, quiet = false, verbose = false, json = false;
};

/// What --verbose says before a start: the machine, and each value that is not the default.
void print_details(const Config& config) {
  std::string text = version_text() + std::string(cpu_name()) + ", " + binary_size(available_memory()) +
                     " of memory available\n";
  for (const Difference& d : differences(Config{}, config))
    text += "  " + d.path + " = " + d.after + " (default " + d.before + ")\n";
  std::fputs(harmless(text).c_str(), stderr);
}

/// Every setting of a run, for TensorBoard's table.
std::vector<Hyperparameter> settings_of(Config config) {
  std::vector<Hyperparameter> settings;
  for (const Field& field : fields_of(config).fields) {
    Hyperparameter& setting = settings.emplace_back(field.path, value_text(field));
    const auto take = [&](const auto& value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>)
        setting.value = value;
      else if constexpr (std::is_arithmetic_v<T>)
        setting.value = static_cast<double>(value);
    };
    std::visit(take, value_json(field).value);
  }
  return settings;
}

int run(const TrainOptions& options) {
  TrainRequest request{options.files,  options.sets,      options.run_dir,
                       options.resume, options.overwrite, commit()};
  if (!options.quiet) request.reading = reading_line();
  if (request.config_files.empty() && request.resume.empty()) request.config_files = {default_config()};
  Files files;
  const Terminal terminal = inspect_terminal(STDERR_FILENO, colour_policy(options.colour).value());
  File log;
  std::string command;  // what the model is for
  const auto watch = [&](Observers& observers, const Config& config, const std::filesystem::path& run_dir) {
    command = framing_of(config) == Framing::stream   ? "sample"
              : framing_of(config) == Framing::memory ? "translate"
                                                      : "predict";
    ConsoleOptions console;
    console.terminal = terminal;
    console.log_interval = options.verbose ? 1 : config.watch.log_interval;
    console.quiet = options.quiet;
    if (options.verbose) print_details(config);
    if (options.json) observers.add(std::make_unique<JsonlStream>(STDOUT_FILENO));
    observers.add(std::make_unique<Console>(console));
    observers.add(std::make_unique<SampleFiles>(files, run_dir / "samples"));
    if (config.watch.tensorboard)
      observers.add(std::make_unique<TensorBoard>(files, run_dir / "tb", settings_of(config)));
    log = files.append(run_dir / "log.txt");  // the same lines without a terminal's manners
    console.terminal = {log.descriptor(), false, false, true, false, 80};
    console.quiet = false;
    observers.add(std::make_unique<Console>(console));
    observers.add(std::make_unique<ReportWriter>(files, run_dir));
  };
  if (!options.quiet && terminal.live)
    announce_stops("\nstopping when this step is done and saved; a second time ends at once\n");
  const TrainOutcome outcome = train(files, request, watch);
  if (!options.quiet && outcome.exit_code == 0) {
    const std::string path = outcome.run_dir.string();
    const std::string picture =
        loss_picture(read_runs({path}),
                     plot_options(inspect_terminal(STDERR_FILENO, colour_policy(options.colour).value())));
    std::fprintf(stderr, "\n%s\n", picture.c_str());
    say((command == "sample" ? "sample it:  quern " : "try it:  quern ") + command + " --run " +
        shell_word(path));
    const std::filesystem::path report = outcome.run_dir / report_name;
    if (files.kind(report) == EntryKind::file) say("report:  " + shell_word(report.string()));
  }
  return outcome.exit_code;
}

}  // namespace

void add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = add_command(
      app, "train", "Train a Transformer; without --config the toy model on the embedded corpus",
      {"quern train", "quern train --config configs/tiny.json --set run.max_steps=100 --run-dir runs/one",
       "quern train --resume runs/latest --set run.max_steps=4000"},
      [options] { return run(*options); });
  add_config_options(*command, *options);
  add_text(*command, "--run-dir", options->run_dir, "DIR",
           "The run's directory (default: runs/<name>-<time>-<hex>)");
  add_text(*command, "--resume", options->resume, "auto|DIR|CHECKPOINT",
           "Go on with a run: its directory, one of its checkpoints, or auto: the run at --run-dir when "
           "there is one, else a new one");
  command->add_flag("--overwrite", options->overwrite, "Replace the run that is at --run-dir");
  CLI::Option* verbose = command->add_flag(
      "-v,--verbose", options->verbose,
      "Say on what machine and what differs from the defaults; outside a terminal a line for every step");
  command->add_flag("-q,--quiet", options->quiet, "Print warnings and errors only")->excludes(verbose);
  command->add_flag("--json", options->json, "Write the run's events to stdout, one JSON object a line");
  add_color_option(*command, options->colour);
}

}  // namespace quern::cli
