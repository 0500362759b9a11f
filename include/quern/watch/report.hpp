// report.html: the curves, facts and samples of one run or of several as one page that needs nothing beside
// it. Chart.js and the page's own script and style are embedded; a Content-Security-Policy names their hashes
// and allows nothing else, so that the page reaches no network and runs nothing that a run's files hold.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/watch/metrics.hpp"

namespace quern {

/// What a page shows of a run.
struct ReportRun {
  std::string name;    // one word for legends and tables
  std::string path;    // the run's directory as the user typed it
  std::string status;  // as status_of says it
  Metrics metrics;
  std::string config;                 // the JSON objects config.resolved.json, config.json and env.json;
  std::string given;                  // empty where a run has none
  std::string environment;            //
  std::vector<std::string> problems;  // which of them could not be read, and why
};

/// The directory of a run that is named by it or by the metrics.jsonl in it.
std::filesystem::path run_directory_of(const std::string& run);

/// Reads runs as read_runs does, named alike, with the files beside their metrics; one of those that is
/// missing or damaged is a problem of the run, not an error. A run without an end counts as killed: whoever
/// knows that it goes on says so. Throws what read_run throws.
std::vector<ReportRun> read_report_runs(Files& files, const std::vector<std::string>& paths);

/// The page. Runs of more than some thousand steps are thinned, extremes kept, so that a page has at most
/// about 3 MB; `written` (UTC seconds since 1970) stands in it.
std::string report_page(const std::vector<ReportRun>& runs, double written);

/// Puts the page of these runs at `path`, in place of what is there, at once. Throws Error io.
void write_report(Files& files, const std::filesystem::path& path, const std::vector<ReportRun>& runs);

/// Keeps report.html of a run that trains: written when the run ends, and before that after evaluations and
/// checkpoints as often as it costs no more than a hundredth of the time. Behind the JsonlWriter in the list
/// of observers, since it reads the metrics back.
class ReportWriter final : public Observer {
 public:
  ReportWriter(Files& files, std::filesystem::path run_directory);

  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  using Clock = std::chrono::steady_clock;
  void write_when_cheap();
  void write();

  Files& files_;
  std::filesystem::path run_;
  Clock::time_point written_ = Clock::now();
  Clock::duration cost_ = std::chrono::milliseconds(20);  // of a page; at first a guess
};

/// The page's name in a run's directory.
inline constexpr const char* report_name = "report.html";

}  // namespace quern
