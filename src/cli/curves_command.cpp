// quern curves
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/watch/curves.hpp"
#include "quern/watch/curves_csv.hpp"
#include "quern/watch/report.hpp"

namespace quern::cli {

namespace {

struct CurvesOptions {
  std::vector<std::string> runs;
  std::string metric = "loss", x = "step", colour = "auto";
  std::optional<double> smoothing;
  std::optional<int> width, height;
  bool csv = false, follow = false;
};

std::string picture(const CurvesOptions& options, const std::vector<NamedMetrics>& runs) {
  CurveOptions curves;
  curves.metric = metric_named(options.metric).value();
  curves.x = x_axis_named(options.x).value();
  curves.smoothing = options.smoothing;
  curves.plot = plot_options(inspect_terminal(STDOUT_FILENO, colour_policy(options.colour).value()));
  curves.plot.width = options.width.value_or(curves.plot.width);
  curves.plot.height = options.height.value_or(curves.plot.height);
  return curves_picture(runs, curves);
}

/// The picture, lower where the window's rows are too few for it and no height was asked for.
std::string fitted_picture(const CurvesOptions& options) {
  const std::vector<NamedMetrics> runs = read_runs(options.runs);
  std::string whole = picture(options, runs);
  const int rows = terminal_height(STDOUT_FILENO);
  const auto lines = static_cast<int>(std::count(whole.begin(), whole.end(), '\n'));
  if (options.height || rows == 0 || lines < rows) return whole;
  CurvesOptions lower = options;
  lower.height = std::max(4, PlotOptions().height - (lines + 1 - rows));
  return picture(lower, runs);
}

/// Draws the picture anew over itself until none of the runs goes on.
int follow(const CurvesOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (!inspect_terminal(STDOUT_FILENO).live)
    throw Error(ErrorKind::config, "--follow draws over what it drew, which this output cannot",
                "run it in a terminal, or leave --follow away");
  Files files;
  const auto goes_on = [&](const std::string& run) { return in_use(files, run_directory_of(run)); };
  for (std::string shown;;) {
    const Clock::time_point begin = Clock::now();
    const bool live = std::any_of(options.runs.begin(), options.runs.end(), goes_on);
    const std::string next = fitted_picture(options);
    // Up by the lines that are there, and all below erased.
    const auto lines = std::count(shown.begin(), shown.end(), '\n');
    if (next != shown) write_out((lines > 0 ? "\x1b[" + std::to_string(lines) + "A\x1b[J" : "") + next);
    shown = next;
    if (!live) return 0;
    // A long run takes a while to read: the trainer needs the processor more.
    std::this_thread::sleep_for(
        std::max<Clock::duration>(std::chrono::seconds(1), 20 * (Clock::now() - begin)));
  }
}

int run(const CurvesOptions& options) {
  if (options.csv) {
    write_out(curves_csv(read_runs(options.runs)));
    return 0;
  }
  if (options.runs.size() > max_runs) {
    throw Error(ErrorKind::config, std::to_string(options.runs.size()) + " runs are too many for one picture",
                "name at most " + std::to_string(max_runs));
  }
  if (options.follow) return follow(options);
  write_out(picture(options, read_runs(options.runs)));
  return 0;
}

}  // namespace

void add_curves(CLI::App& app) {
  const auto options = std::make_shared<CurvesOptions>();
  CLI::App* command =
      add_command(app, "curves", "Draw the loss curves of one or several runs in the terminal",
                  {"quern curves runs/latest", "quern curves runs/one runs/two --x time",
                   "quern curves runs/latest --metric grad_norm --smooth 0.9",
                   "quern curves runs/latest --follow", "quern curves runs/latest --csv > latest.csv"},
                  [options] { return run(*options); });
  command
      ->add_option("run", options->runs, "A run's directory or a metrics.jsonl; several are drawn together")
      ->required()
      ->type_name("RUN");
  add_choice(*command, "--metric", options->metric,
             {"loss", "lr", "grad_norm", "update_ratio", "tokens_per_second"}, "What to draw");
  add_choice(*command, "--x", options->x, {"step", "tokens", "time"}, "What the x axis counts");
  add_number(*command, "--smooth", options->smoothing, half_open(0, 1),
             "Weight of the moving average: 0.9 averages over about 10 steps, 0 draws every step as it is "
             "(default: by the number of steps)");
  add_number(*command, "--width", options->width, between(40, 1000),
             "Columns (default: the terminal's, 40 to 200)");
  add_number(*command, "--height", options->height, between(4, 500), "Rows of the plot itself (default: 16)");
  add_color_option(*command, options->colour);
  CLI::Option* csv =
      command->add_flag("--csv", options->csv, "Print every step and evaluation of the runs as CSV instead");
  for (const char* of_picture : {"--metric", "--x", "--smooth", "--width", "--height"})
    csv->excludes(command->get_option(of_picture));
  command->add_flag("--follow", options->follow, "Draw anew, in a terminal, until the runs have ended")
      ->excludes(csv);
}

}  // namespace quern::cli
