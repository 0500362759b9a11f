// quern report
#include <memory>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/watch/report.hpp"

namespace quern::cli {

namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
};

/// The runs, and which of them are being trained now: the lock is looked at before the metrics and, where
/// they have no end, after them too, since a run may have started in between.
std::vector<ReportRun> read(Files& files, const std::vector<std::string>& paths) {
  std::vector<bool> busy;
  for (const std::string& path : paths) busy.push_back(in_use(files, run_directory_of(path)));
  std::vector<ReportRun> runs = read_report_runs(files, paths);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].metrics.end && (busy[i] || in_use(files, runs[i].path))) runs[i].status = "running";
    for (const std::string& problem : runs[i].problems) say("warning: " + problem);
  }
  return runs;
}

int run(const ReportOptions& options) {
  Files files;
  const std::vector<ReportRun> runs = read(files, options.runs);
  std::filesystem::path out = options.out;
  if (out.empty())
    out = runs.size() == 1 ? std::filesystem::path(runs.front().path) / report_name : report_name;
  write_report(files, out, runs);
  say("report:  " + shell_word(out.string()));
  return 0;
}

}  // namespace

void add_report(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      add_command(app, "report", "Write the curves of one or several runs as a page that opens offline",
                  {"quern report runs/latest", "quern report runs/one runs/two --out both.html",
                   "quern report runs/*/ --out all.html"},
                  [options] { return run(*options); });
  command
      ->add_option("run", options->runs, "A run's directory or a metrics.jsonl; several are drawn together")
      ->required()
      ->type_name("RUN");
  add_text(*command, "--out", options->out, "FILE",
           "The page (default: report.html in the run's directory; of several runs, in this directory)");
}

}  // namespace quern::cli
