// quern curves
#include <unistd.h>

#include <memory>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/watch/curves.hpp"
#include "quern/watch/curves_csv.hpp"

namespace quern::cli {

namespace {

struct CurvesOptions {
  std::vector<std::string> runs;
  std::string metric = "loss", x = "step", colour = "auto";
  std::optional<double> smoothing;
  std::optional<int> width, height;
  bool csv = false;
};

int run(const CurvesOptions& options) {
  if (options.csv) {
    write_out(curves_csv(read_runs(options.runs)));
    return 0;
  }
  if (options.runs.size() > max_runs) {
    throw Error(ErrorKind::config, std::to_string(options.runs.size()) + " runs are too many for one picture",
                "name at most " + std::to_string(max_runs));
  }
  CurveOptions picture;
  picture.metric = metric_named(options.metric).value();
  picture.x = x_axis_named(options.x).value();
  picture.smoothing = options.smoothing;
  picture.plot = plot_options(inspect_terminal(STDOUT_FILENO, colour_policy(options.colour).value()));
  picture.plot.width = options.width.value_or(picture.plot.width);
  picture.plot.height = options.height.value_or(picture.plot.height);
  write_out(curves_picture(read_runs(options.runs), picture));
  return 0;
}

}  // namespace

void add_curves(CLI::App& app) {
  const auto options = std::make_shared<CurvesOptions>();
  CLI::App* command =
      add_command(app, "curves", "Draw the loss curves of one or several runs in the terminal",
                  {"quern curves runs/latest", "quern curves runs/one runs/two --x time",
                   "quern curves runs/latest --metric grad_norm --smooth 0.9",
                   "quern curves runs/latest --csv > latest.csv"},
                  [options] { return run(*options); });
  command
      ->add_option("run", options->runs, "A run's directory or a metrics.jsonl; several are drawn together")
      ->required()
      ->type_name("RUN");
  add_choice(*command, "--metric", options->metric, {"loss", "lr", "grad_norm", "tokens_per_second"},
             "What to draw");
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
}

}  // namespace quern::cli
