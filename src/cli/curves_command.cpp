// quern curves
#include <unistd.h>

#include <memory>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/watch/curves.hpp"

namespace quern::cli {

namespace {

struct CurvesOptions {
  std::vector<std::string> runs;
  std::string metric = "loss", x = "step", colour = "auto";
  std::optional<double> smoothing;
  std::optional<int> width, height;
};

int run(const CurvesOptions& options) {
  if (options.runs.size() > max_runs) {
    throw Error(ErrorKind::config, std::to_string(options.runs.size()) + " runs are too many for one picture",
                "name at most " + std::to_string(max_runs));
  }
  if (options.smoothing && !(*options.smoothing >= 0 && *options.smoothing < 1)) {
    throw Error(ErrorKind::config, "--smooth: not a weight of at least 0 and below 1",
                "0 draws every step as it is, 0.9 averages over about 10 steps, 0.99 over about 100");
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
                   "quern curves runs/latest --metric grad_norm --smooth 0.9"},
                  [options] { return run(*options); });
  command
      ->add_option("run", options->runs, "A run's directory or a metrics.jsonl; several are drawn together")
      ->required()
      ->type_name("RUN");
  command->add_option("--metric", options->metric, "What to draw")
      ->check(CLI::IsMember({"loss", "lr", "grad_norm", "tokens_per_second"}))
      ->capture_default_str();
  command->add_option("--x", options->x, "What the x axis counts")
      ->check(CLI::IsMember({"step", "tokens", "time"}))
      ->capture_default_str();
  command
      ->add_option("--smooth", options->smoothing,
                   "Weight of the moving average, 0 to below 1 (default: by the number of steps)")
      ->type_name("WEIGHT");
  command->add_option("--width", options->width, "Columns (default: the terminal's, 40 to 200)")
      ->check(CLI::Range(40, 1000))
      ->type_name("N");
  command->add_option("--height", options->height, "Rows of the plot itself (default: 16)")
      ->check(CLI::Range(4, 500))
      ->type_name("N");
  add_color_option(*command, options->colour);
}

}  // namespace quern::cli
